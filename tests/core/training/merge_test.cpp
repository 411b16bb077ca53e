#include "core/training/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/attention/online_softmax.h"
#include "core/base/random.h"
#include "core/training/rank_threads.h"
#include "tests/core/training/message_log.h"

namespace ringscope {
namespace merge_test {

constexpr Index kHeadDim = 5;

// What a rank has of a head: now and then nothing.
std::vector<float> partial_of(int rank, Index heads) {
  std::vector<float> partial;
  const auto seed = static_cast<std::uint64_t>(rank);
  for (Index h = 0; h < heads; ++h) {
    const bool is_empty = random_bits(seed, 7, static_cast<std::uint64_t>(h)) % 4 == 0;
    for (Index x = 0; x < kHeadDim; ++x)
      partial.push_back(
          is_empty ? 0 : static_cast<float>(normal(seed, RandomTensor::v, h * kHeadDim + x)));
    partial.push_back(is_empty ? kMinusInfinity<float>
                               : static_cast<float>(20 * normal(seed, RandomTensor::q, h)));
  }
  return partial;
}

struct MergingRank {
  MergingRank(Index heads, Communicator& inner)
      : comm(inner),
        merger({.batch = 1, .num_heads = heads, .head_dim = kHeadDim}, inner.world_size(), nullptr),
        partial(partial_of(inner.rank(), heads)) {}

  MessageLog comm;
  Merger merger;
  std::vector<float> partial;
};

auto merged(Index heads, int world_size) {
  return run_rank_threads(
      world_size, [&](Communicator& comm) { return std::make_unique<MergingRank>(heads, comm); },
      [](MergingRank& rank) { rank.merger.merge(rank.comm, rank.partial.data()); });
}

// By (m, l) in f64, with m = lse and l = 1: the other form of the merge.
std::vector<double> expected_of(Index heads, int world_size) {
  std::vector<double> expected;
  for (Index h = 0; h < heads; ++h) {
    RowState<double> row;
    std::vector<double> out(kHeadDim);
    for (int rank = 0; rank < world_size; ++rank) {
      const std::vector<float> partial = partial_of(rank, heads);
      const auto from = partial.begin() + h * (kHeadDim + 1);
      const std::vector<double> its_out(from, from + kHeadDim);
      const double lse = from[kHeadDim];
      merge<double>(row, out, {lse, std::isinf(lse) ? 0.0 : 1.0}, its_out);
    }
    for (const double x : out) expected.push_back(row.row_sum == 0 ? 0 : x / row.row_sum);
    expected.push_back(lse_of(row));
  }
  return expected;
}

TEST(Merge, OfAllRanksIsTheSameBitsOnEveryRankRightAndSendsWhatTheFormulaSays) {
  for (const Index heads : {1, 3, 20})
    for (int n = 1; n <= 9; ++n) {
      const auto ranks = merged(heads, n);
      const std::vector<double> expected = expected_of(heads, n);
      MergeCost counted;
      std::map<int, Index> largest;  // by step
      for (const auto& rank : ranks) {
        ASSERT_EQ(std::memcmp(rank->partial.data(), ranks[0]->partial.data(),
                              rank->partial.size() * sizeof(float)),
                  0)
            << "rank " << rank->comm.rank() << " of " << n;
        for (const Exchange& hop : rank->comm.hops) {
          EXPECT_EQ(hop.step, &hop - rank->comm.hops.data());
          counted.messages += hop.send_bytes > 0;
          counted.bytes += hop.send_bytes;
          largest[hop.step] = max_of(largest[hop.step], hop.send_bytes);
        }
      }
      counted.rounds = std::ssize(largest);
      for (const auto& [step, bytes] : largest) counted.way_bytes += bytes;
      EXPECT_EQ(counted, merge_cost(MergeKind::ring, heads, kHeadDim, n))
          << heads << " heads, " << n;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        // Both numbers are rounded to f32 at each of N - 1 merges; a log-sum of up to 64 is
        // rounded by 2^-19, which moves a head's weights by as much.
        const double tolerance = n * (i % (kHeadDim + 1) == kHeadDim ? 0x1p-19 : 0x1p-18);
        if (std::isinf(expected[i])) {
          ASSERT_EQ(ranks[0]->partial[i], expected[i]);
        } else {
          ASSERT_NEAR(ranks[0]->partial[i], expected[i], tolerance) << heads << " of " << n;
        }
      }
    }
}

// The comparison that the texts make, in figures: 8 ranks, 32 heads of 128.
TEST(Merge, TreeHasFewerRoundsAndLargerMessages) {
  const Index bytes = 14 * 32 * 129 * 4;
  EXPECT_EQ(merge_cost(MergeKind::ring, 32, 128, 8), (MergeCost{14, 112, bytes, 14 * 4 * 129 * 4}));
  EXPECT_EQ(merge_cost(MergeKind::tree, 32, 128, 8), (MergeCost{6, 14, bytes, 6 * 32 * 129 * 4}));
  EXPECT_EQ(merge_cost(MergeKind::tree, 32, 128, 9).rounds, 8);
  EXPECT_EQ(merge_cost(MergeKind::tree, 32, 128, 1), MergeCost());
}

}  // namespace merge_test
}  // namespace ringscope
