// NaN and infinity reach those who may see them and nobody else: all other numbers keep their bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>

#include "tests/core/attention/random_problem.h"

namespace ringscope {

// Spoil each of `rows` of each input in turn, and compare all outputs of run(inputs), which has two heads
// that share K and V, with those of `good`.
template <class T, class Run>
void expect_bad_rows_stay_local(const AttentionShape& shape, const Mask& mask,
                                const Tensors<T>& good, std::initializer_list<Index> rows,
                                const Run& run) {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN(), kInf = std::numeric_limits<T>::infinity();
  using Touched = std::function<bool(Index head, Index row, Index column)>;
  const Touched nobody = [](Index, Index, Index) { return false; };
  const Index seqlen = shape.seqlen, d = shape.head_dim;
  const auto expected = run(good);
  const auto check = [&](const Tensors<T>& bad, const Touched& lse, const Touched& out,
                         const Touched& dq, const Touched& dk, const Touched& dv) {
    const auto result = run(bad);
    const auto compare = [&](const char* name, const auto& found, const auto& unharmed, Index width,
                             const Touched& touched) {
      ASSERT_EQ(found.size(), unharmed.size()) << name;
      for (Index at = 0; at < std::ssize(found); ++at) {
        const Index head = at / width / seqlen, row = at / width % seqlen;
        if (touched(head, row, at % width)) {
          EXPECT_FALSE(std::isfinite(found[at])) << name << ", head " << head << ", row " << row;
        } else {
          EXPECT_EQ(found[at], unharmed[at]) << name << ", head " << head << ", row " << row;
        }
      }
    };
    compare("lse", result.lse, expected.lse, 1, lse);
    compare("out", result.out, expected.out, d, out);
    compare("dq", result.dq, expected.dq, d, dq);
    compare("dk", result.dk, expected.dk, d, dk);
    compare("dv", result.dv, expected.dv, d, dv);
  };
  for (const Index row : rows) {
    const auto attends = [&](Index, Index i, Index) { return mask.allows(i, row); };
    const auto attends_with = [&](Index, Index key, Index) {  // some query attends both keys
      for (Index i = 0; i < seqlen; ++i)
        if (mask.allows(i, row) && mask.allows(i, key)) return true;
      return false;
    };
    const auto attended = [&](Index, Index key, Index) { return mask.allows(row, key); };
    const auto itself = [row](Index of_head) {
      return [=](Index head, Index i, Index) { return head == of_head && i == row; };
    };
    Tensors<T> bad = good;
    for (const T value : {kNan, kInf}) {
      SCOPED_TRACE(testing::Message() << value << " in key and value " << row);
      std::fill_n(bad.k.begin() + row * d, d, value);
      // A NaN score whatever the query: inf needs components of both signs.
      if (value == kInf) bad.k[row * d + 1] = -kInf, bad.k[row * d + 2] = kNan;
      check(bad, attends, attends, attends, attends_with, attends_with);
      bad.k = good.k;
      bad.v[row * d + 1] = value;
      const auto its_column = [&](Index, Index i, Index column) {
        return column == 1 && mask.allows(i, row);
      };
      check(bad, nobody, its_column, attends, attends_with, nobody);
      bad.v = good.v;
    }
    SCOPED_TRACE(testing::Message() << "query " << row << ", or its gradient");
    std::fill_n(bad.q.begin() + (seqlen + row) * d, d, kNan);
    check(bad, itself(1), itself(1), itself(1), attended, attended);
    bad.q = good.q;
    std::fill_n(bad.dout.begin() + row * d, d, kNan);
    check(bad, nobody, nobody, itself(0), attended, attended);
  }
}

}  // namespace ringscope
