// `run --verify` finds wrong numbers whatever the inputs' sizes, and calls right ones right.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include "core/check/mistakes.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

// How large the inputs are; the scores are as large as of others.
struct Sizes {
  double q, v, dout;
};

class VerifyTest : public ProgramTest {
 protected:
  void write_inputs(Index seqlen, const Sizes& sizes, bool f64) const {
    const auto write = [&](const char* name, Index heads, double size, double begin) {
      write_tensor(
          name, {1, heads, seqlen, 8},
          [&](Index i) { return size * std::sin(begin + 1.7 * static_cast<double>(i * i % 1013)); },
          f64);
    };
    write("q.npy", 4, 3 * sizes.q, 0.1);
    write("k.npy", 2, 1 / sizes.q, 0.2);
    write("v.npy", 2, sizes.v, 0.3);
    write("do.npy", 4, sizes.dout, 0.4);
  }

  ProgramResult verify(const std::string& more) const {
    return run(
        Strings("run --q q.npy --k k.npy --v v.npy --dout do.npy --backward --world-size 4 "
                "--verify " +
                more));
  }
};

// Floors that don't shrink with the values passed whatever is below them: dK of a dO near 1e-7, and
// outputs of a V as small.
TEST_F(VerifyTest, FindsEveryMistakeAtEverySize) {
  // Three mistakes need ranks of unequal numbers of rows, or blocks without an allowed key.
  const struct {
    Index seqlen;
    const char* flags;
    bool is_uneven;
  } problems[] = {{48, "--partition zigzag --mask causal", false},
                  {46, "--mask causal+window:12", true}};
  const struct {
    Sizes sizes;
    const char* dtype;
    bool f64;
  } cases[] = {{{1, 1e-30, 1}, "f32", false}, {{1, 1, 1e-30}, "f32", true},
               {{1e-30, 1, 1}, "f32", false}, {{1, 1e30, 1}, "f32", true},
               {{1, 1, 1e30}, "f32", false},  {{1e30, 1, 1}, "f32", true},
               {{1, 1e-7, 1}, "bf16", false}, {{1, 1, 1e-30}, "bf16", true},
               {{1, 1e30, 1}, "bf16", true},  {{1, 1e-3, 1e-3}, "f16", false}};
  for (const auto& problem : problems)
    for (const auto& [sizes, dtype, f64] : cases) {
      write_inputs(problem.seqlen, sizes, f64);
      const std::string flags = fmt::format("{} --dtype {}", problem.flags, dtype);
      SCOPED_TRACE(
          fmt::format("{}, q {:g}, v {:g}, dout {:g}", flags, sizes.q, sizes.v, sizes.dout));
      const ProgramResult right = verify(flags);
      EXPECT_EQ(right.status, 0) << right.err << right.out;
      for (const Mistake mistake : kAllMistakes)
        if (problem.is_uneven ==
            (mistake == Mistake::rows_dropped || mistake == Mistake::masked_block_nan ||
             mistake == Mistake::unequal_shards)) {
          EXPECT_EQ(verify(fmt::format("{} --inject {}", flags, name_of(mistake))).status, 1)
              << name_of(mistake);
        }
    }
}

}  // namespace
}  // namespace ringscope
