#include "core/model/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "core/attention/online_softmax.h"
#include "core/base/random.h"
#include "core/model/rank_threads.h"
#include "tests/core/model/message_log.h"

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
  MergingRank(MergeKind kind, Index heads, Communicator& inner)
      : comm(inner),
        merger(kind, {.batch = 1, .num_heads = heads, .head_dim = kHeadDim}, inner.world_size(),
               nullptr),
        partial(partial_of(inner.rank(), heads)) {}

  MessageLog comm;
  Merger merger;
  std::vector<float> partial;
};

auto merged(MergeKind kind, Index heads, int world_size) {
  return run_rank_threads(
      world_size,
      [&](Communicator& comm) { return std::make_unique<MergingRank>(kind, heads, comm); },
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

TEST(Merge, OfAllRanksIsTheSameBitsOnEveryRankAndRight) {
  for (const MergeKind kind : {MergeKind::ring, MergeKind::tree})
    for (const Index heads : {1, 3, 20})
      for (int n = 1; n <= 9; ++n) {
        const auto ranks = merged(kind, heads, n);
        const std::vector<double> expected = expected_of(heads, n);
        for (const auto& rank : ranks) {
          ASSERT_EQ(std::memcmp(rank->partial.data(), ranks[0]->partial.data(),
                                rank->partial.size() * sizeof(float)),
                    0)
              << "rank " << rank->comm.rank() << " of " << n;
        }
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

// A message in a tree begins where it comes from, and is passed along under its sender's name.
TEST(Merge, SendsWhatTheFormulasSay) {
  for (const MergeKind kind : {MergeKind::ring, MergeKind::tree})
    for (const Index heads : {1, 3, 20})
      for (int n = 1; n <= 9; ++n) {
        MergeCost counted;
        std::map<int, Index> largest;  // by step in which messages begin
        const auto ranks = merged(kind, heads, n);
        for (const auto& rank : ranks) {
          counted.hops = std::ssize(rank->comm.hops);
          ASSERT_EQ(counted.hops, std::ssize(ranks[0]->comm.hops));
          for (const Exchange& hop : rank->comm.hops) {
            EXPECT_EQ(hop.step, &hop - rank->comm.hops.data());
            if (hop.send_bytes == 0) continue;
            ++counted.hop_messages;
            counted.hop_bytes += hop.send_bytes;
            if (kind == MergeKind::tree && hop.send_owner != rank->comm.rank()) continue;
            ++counted.messages;
            counted.bytes += hop.send_bytes;
            largest[hop.step] = max_of(largest[hop.step], hop.send_bytes);
          }
        }
        counted.rounds = std::ssize(largest);
        for (const auto& [step, bytes] : largest) counted.way_bytes += bytes;
        EXPECT_EQ(counted, merge_cost(kind, heads, kHeadDim, n))
            << (kind == MergeKind::ring ? "ring" : "tree") << ", " << heads << " heads, " << n;
      }
}

// The comparison that the texts make, in figures: 8 ranks, 32 heads of 128.
TEST(Merge, TreeHasFewerRoundsAndNoFewerHops) {
  const MergeCost ring = merge_cost(MergeKind::ring, 32, 128, 8);
  const MergeCost tree = merge_cost(MergeKind::tree, 32, 128, 8);
  EXPECT_EQ(std::tuple(ring.rounds, ring.messages, ring.way_bytes),
            std::tuple(14, 112, 14 * 4 * 129 * 4));
  EXPECT_EQ(std::tuple(tree.rounds, tree.messages, tree.way_bytes),
            std::tuple(6, 14, 6 * 32 * 129 * 4));
  EXPECT_EQ(ring.bytes, tree.bytes);
  EXPECT_EQ(ring.hops, tree.hops);
  EXPECT_LT(ring.hop_bytes, tree.hop_bytes);
}

}  // namespace merge_test
}  // namespace ringscope
