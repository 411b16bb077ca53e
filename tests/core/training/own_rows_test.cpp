// What a model does to rows by themselves gives a row the same bits whichever rank holds it, and
// among however many others: so all that world_size and partition change is the order in which
// attention and the sums of gradients add up.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "core/base/random.h"
#include "core/problem/partition.h"
#include "core/training/layers.h"

namespace ringscope {
namespace own_rows_test {

constexpr Index kSeqlen = 23, kWidth = 20;  // no multiple of a vector's lanes
constexpr Index kHeadDim = 4, kHeads = kWidth / kHeadDim;

using Values = std::vector<float>;

Values drawn(std::uint64_t stream) {
  Values result(static_cast<std::size_t>(kSeqlen * kWidth));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<float>(4 * unit_interval(random_bits(5, stream, i)) - 2);
  return result;
}

Values rows_of(const Values& whole, const LocalRows& rows) {
  Values result;
  for (Index row = 0; row < rows.size(); ++row)
    result.insert(result.end(), whole.begin() + rows.global_position(row) * kWidth,
                  whole.begin() + (rows.global_position(row) + 1) * kWidth);
  return result;
}

// f(rows, a, b) returns a row for each of its rows.
using OfRows = std::function<Values(const LocalRows& rows, Values a, Values b)>;

void expect_same_bits_on_every_rank(const OfRows& f) {
  const Values a = drawn(1), b = drawn(2);
  const Values whole = f(Partition{PartitionKind::contiguous, kSeqlen, 1}.rows_of(0), a, b);
  ASSERT_EQ(whole.size(), a.size());
  for (const PartitionKind kind : kAllPartitions)
    for (int world_size = 2; world_size <= 5; ++world_size)
      for (int rank = 0; rank < world_size; ++rank) {
        const LocalRows rows = Partition{kind, kSeqlen, world_size}.rows_of(rank);
        const Values found = f(rows, rows_of(a, rows), rows_of(b, rows));
        const Values expected = rows_of(whole, rows);
        ASSERT_EQ(found.size(), expected.size());
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), sizeof(float) * found.size()), 0)
            << name_of(kind) << ", rank " << rank << " of " << world_size;
      }
}

TEST(OwnRows, RmsNorm) {
  const Values gain = drawn(3);
  expect_same_bits_on_every_rank([&](const LocalRows& rows, Values x, Values) {
    Values y(x.size()), inverse_rms(x.size());
    rms_norm_forward(rows.size(), kWidth, 1e-5, x.data(), gain.data(), y.data(),
                     inverse_rms.data());
    return y;
  });
  expect_same_bits_on_every_rank([&](const LocalRows& rows, Values x, Values dy) {
    Values y(x.size()), inverse_rms(x.size()), dx(x.size()), dgain(kWidth);
    rms_norm_forward(rows.size(), kWidth, 1e-5, x.data(), gain.data(), y.data(),
                     inverse_rms.data());
    rms_norm_backward(rows.size(), kWidth, x.data(), gain.data(), inverse_rms.data(), dy.data(),
                      dx.data(), dgain.data());
    return dx;
  });
}

TEST(OwnRows, Gate) {
  expect_same_bits_on_every_rank([](const LocalRows&, Values gate, Values up) {
    Values y(gate.size());
    swiglu_forward(static_cast<Index>(y.size()), gate.data(), up.data(), y.data());
    swiglu_backward(static_cast<Index>(y.size()), gate.data(), up.data(), y.data(), y.data(),
                    up.data());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += up[i];
    return y;
  });
}

// Positions are global: turned by local ones, all rows but rank 0's first would come out otherwise.
TEST(OwnRows, RotaryPositions) {
  expect_same_bits_on_every_rank([](const LocalRows& rows, Values x, Values) {
    Rotary(rows, kHeadDim, 100).turn(1, kHeads, x.data());
    return x;
  });
}

TEST(OwnRows, CrossEntropy) {
  expect_same_bits_on_every_rank([](const LocalRows& rows, Values logits, Values) {
    std::vector<std::uint8_t> targets;
    for (Index row = 0; row < rows.size(); ++row)
      targets.push_back(static_cast<std::uint8_t>(rows.global_position(row) % kWidth));
    cross_entropy(rows.size(), kWidth, targets.data(), 0.25, logits.data());
    return logits;
  });
}

// Logits so far apart that a plain exponential would overflow.
TEST(CrossEntropy, OfLargeLogits) {
  const std::uint8_t targets[] = {0, 1};
  float logits[] = {1000, 0, -1000, 1000, 0, -1000};
  EXPECT_NEAR(cross_entropy(2, 3, targets, 1, logits), 1000, 1e-9);
  const float expected[] = {0, 0, 0, 1, -1, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(logits[i], expected[i]);
}

}  // namespace own_rows_test
}  // namespace ringscope
