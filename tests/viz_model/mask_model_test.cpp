// What a recording's mask means: figures of regions and points of the picture against counting pair
// by pair, and how much of the matrix is attended at a moment.
#include <gtest/gtest.h>

#include <cmath>

#include "core/ring/ring.h"
#include "tests/core/problem/all_masks.h"
#include "tests/viz_model/hand_made.h"
#include "viz/model/mask/mask_painter.h"

namespace ringscope::viz {
namespace {

TEST(MaskModel, OfARecording) {
  const Trace trace = HandMade(4, "zigzag", "causal+documents:50,14").trace();
  const auto model = mask_model(trace);
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->partition.kind, PartitionKind::zigzag);
  EXPECT_EQ(model->partition.seqlen, 64);
  EXPECT_EQ(model->partition.world_size, 4);
  EXPECT_TRUE(model->mask().allows(49, 3));
  EXPECT_FALSE(model->mask().allows(50, 3));
}

TEST(MaskModel, NoneWhereTheWordsMeanNothing) {
  EXPECT_FALSE(mask_model(Trace{}).has_value());
  EXPECT_FALSE(mask_model(HandMade(4, "spiral").trace()).has_value());
  EXPECT_FALSE(mask_model(HandMade(4, "zigzag", "diagonal").trace()).has_value());
  // Documents that don't sum up to the sequence's 64.
  EXPECT_FALSE(mask_model(HandMade(4, "zigzag", "documents:50,15").trace()).has_value());
  EXPECT_FALSE(mask_model(HandMade(4, "zigzag", "full", "ring", 0).trace()).has_value());
  EXPECT_FALSE(mask_model(HandMade(4, "zigzag", "full", "ring", kMaxSeqlen + 1).trace()));
}

TEST(MaskModel, TilesOfRegionsAreThoseOfCountingPairs) {
  const Index seqlen = 19;
  for (const char* text : {"full", "causal", "causal+window:5", "window:3", "prefix:7",
                           "causal+documents:3,1,1,9,5", "documents:10,2,7", "window:1"})
    for (const PartitionKind kind : kAllPartitions)
      for (const int ranks : {1, 2, 3, 23}) {
        const MaskModel model{MaskSpec::parse(text), {kind, seqlen, ranks}};
        const Mask mask = model.mask();
        for (int rank = 0; rank < ranks; ++rank)
          for (int owner = 0; owner < ranks; ++owner)
            for (const Index tile : {1, 2, 3, 8, 100}) {
              const LocalRows q = model.partition.rows_of(rank), k = model.partition.rows_of(owner);
              RegionCounts expected;
              expected.all = q.size() * k.size();
              for (Index i = 0; i < q.size(); i += tile)
                for (Index j = 0; j < k.size(); j += tile) {
                  Index pairs = 0, all = 0;
                  for (Index a = i; a < min_of(i + tile, q.size()); ++a)
                    for (Index b = j; b < min_of(j + tile, k.size()); ++b) {
                      pairs += mask.allows(q.global_position(a), k.global_position(b));
                      ++all;
                    }
                  expected.pairs += pairs;
                  ++(pairs == 0     ? expected.tiles_empty
                     : pairs == all ? expected.tiles_full
                                    : expected.tiles_partial);
                }
              const RegionCounts counts = count_region(model, rank, owner, tile);
              EXPECT_EQ(counts.pairs, expected.pairs);
              EXPECT_EQ(counts.all, expected.all);
              ASSERT_EQ(counts.tiles_full, expected.tiles_full)
                  << text << ", " << name_of(kind) << ", " << rank << " x " << owner << " of "
                  << ranks << ", tiles of " << tile;
              ASSERT_EQ(counts.tiles_partial, expected.tiles_partial)
                  << text << ", " << name_of(kind) << ", " << rank << " x " << owner << " of "
                  << ranks << ", tiles of " << tile;
              ASSERT_EQ(counts.tiles_empty, expected.tiles_empty);
            }
      }
}

TEST(MaskModel, PointsOfThePicture) {
  for (const PartitionKind kind : kAllPartitions)
    for (const int ranks : {1, 3, 13}) {
      const Index seqlen = 11;
      const MaskModel model{MaskSpec::parse("causal"), {kind, seqlen, ranks}};
      std::vector<Index> local_order;
      for (int rank = 0; rank < ranks; ++rank)
        for (Index i = 0; i < model.partition.rows_of(rank).size(); ++i)
          local_order.push_back(model.partition.rows_of(rank).global_position(i));
      for (const MaskOrder order : {MaskOrder::global, MaskOrder::local})
        for (Index y = 0; y < seqlen; ++y)
          for (Index x = 0; x < seqlen; ++x) {
            const auto at = [&](Index line) { return (static_cast<double>(line) + 0.5) / 11; };
            const auto point = mask_point(model, order, at(x), at(y));
            ASSERT_TRUE(point.has_value());
            const bool global = order == MaskOrder::global;
            const Index query = global ? y : local_order[static_cast<std::size_t>(y)];
            const Index key = global ? x : local_order[static_cast<std::size_t>(x)];
            EXPECT_EQ(point->global_query, query);
            EXPECT_EQ(point->global_key, key);
            EXPECT_EQ(point->allowed, key <= query);
            EXPECT_EQ(model.partition.rows_of(point->rank).global_position(point->local_query),
                      query);
            EXPECT_EQ(model.partition.rows_of(point->owner).global_position(point->local_key), key);
          }
      EXPECT_FALSE(mask_point(model, MaskOrder::global, 1, 0.5).has_value());
      EXPECT_FALSE(mask_point(model, MaskOrder::global, 0.5, -0.01).has_value());
      EXPECT_FALSE(mask_point(model, MaskOrder::local, 0.5, std::nan("")).has_value());
    }
}

TEST(MaskProgress, StepsBeforeAreDoneAndThePresentOnePartly) {
  const Trace trace = HandMade(3).trace();
  RingMoment moment;
  moment.ranks.resize(3);
  for (int rank = 0; rank < 3; ++rank) {
    RankMoment& at = moment.ranks[static_cast<std::size_t>(rank)];
    at.step = rank;
    at.kv_owner = RingSchedule{rank, 3}.owner(rank);
    at.progress = 0.25;
    at.doing = rank == 1 ? RankMoment::computing : RankMoment::waiting;
  }
  const MaskProgress progress = mask_progress(moment, trace);
  // Rank 0 is at its own block, rank 1 at that of rank 0; so is rank 2, having been through 2, 1.
  EXPECT_EQ(progress.done, (std::vector<double>{0.25, 0, 0, 0.25, 1, 0, 0.25, 1, 1}));
  EXPECT_EQ(progress.active,
            (std::vector<bool>{false, false, false, true, false, false, false, false, false}));
}

TEST(MaskProgress, TheBackwardPassFillsUpAgain) {
  HandMade made(3);
  for (const int step : {0, 1, 2}) made.compute(0, step, step, step + 1);
  RingMoment moment;
  moment.ranks.resize(3);
  moment.ranks[0] = {4, 2, Pass::backward, RankMoment::computing, 0.5, -1};
  const MaskProgress progress = mask_progress(moment, made.trace());
  EXPECT_EQ(progress.done[0], 1);
  EXPECT_EQ(progress.done[1], 0);
  EXPECT_EQ(progress.done[2], 0.5);
  EXPECT_TRUE(progress.active[2]);
}

TEST(MaskProgress, OfNothing) { EXPECT_TRUE(mask_progress(RingMoment{}, Trace{}).done.empty()); }

}  // namespace
}  // namespace ringscope::viz
