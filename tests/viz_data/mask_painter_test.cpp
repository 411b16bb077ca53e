// The picture of a mask: colours of owners, strength by share and by progress, the marks of local
// order; and what it is made of. Shares are tested in mask_shares_test.cpp.
#include "viz/data/mask/mask_painter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <tuple>

#include "tests/core/problem/all_masks.h"
#include "tests/viz_data/hand_made.h"

namespace ringscope::viz {
namespace {

int channel(Color color, int c) { return static_cast<int>(color >> (8 * c) & 255); }

// The largest difference of a channel.
int distance(Color a, Color b) {
  int most = 0;
  for (int c = 0; c < 4; ++c) most = std::max(most, std::abs(channel(a, c) - channel(b, c)));
  return most;
}

Image painted(const MaskModel& model, const MaskPaint& paint, int size) {
  Image image(size, size);
  paint_mask(model, paint, image);
  return image;
}

int holder_of(const Partition& partition, Index position) {
  for (int rank = 0; rank < partition.world_size; ++rank)
    if (partition.rows_of(rank).rows_below(position + 1) >
        partition.rows_of(rank).rows_below(position))
      return rank;
  return -1;
}

TEST(MaskPainter, OnePixelAPairHasTheOwnersColourOrNone) {
  for (const Theme theme : {Theme::dark, Theme::light})
    for (const PartitionKind kind : kAllPartitions) {
      const MaskModel model{MaskSpec::parse("causal"), {kind, 24, 3}};
      MaskPaint paint;
      paint.theme = theme;
      const Image image = painted(model, paint, 24);
      for (int y = 0; y < 24; ++y)
        for (int x = 0; x < 24; ++x) {
          const Color expected = x <= y ? owner_color(theme, holder_of(model.partition, x), 3)
                                        : palette_of(theme).empty_tile;
          EXPECT_LE(distance(image.at(x, y), expected), 1)
              << name_of(kind) << ", pixel " << x << ", " << y;
        }
    }
}

TEST(MaskPainter, AShareShowsAsStrength) {
  // One rank: a pixel on the diagonal has 6 of 9 pairs.
  const MaskModel model{MaskSpec::parse("causal"), {PartitionKind::contiguous, 30, 1}};
  MaskPaint paint;
  paint.color_by = ColorBy::kind;
  const Image image = painted(model, paint, 10);
  const Palette& palette = palette_of(Theme::dark);
  ASSERT_GT(distance(palette.empty_tile, palette.full_tile), 40);
  EXPECT_LE(distance(image.at(3, 3), mix(palette.empty_tile, palette.full_tile, 6.0 / 9)), 1);
  EXPECT_LE(distance(image.at(2, 3), palette.full_tile), 1);
  EXPECT_LE(distance(image.at(4, 3), palette.empty_tile), 1);
}

TEST(MaskPainter, OwnersThatShareAPixelMix) {
  // Every pixel of a striped sequence holds both ranks' keys, half and half.
  const MaskModel model{MaskSpec::parse("full"), {PartitionKind::striped, 40, 2}};
  const Image image = painted(model, MaskPaint{}, 10);
  const Color both = mix(owner_color(Theme::dark, 0, 2), owner_color(Theme::dark, 1, 2), 0.5);
  for (int x = 0; x < 10; ++x) EXPECT_LE(distance(image.at(x, 5), both), 1) << x;
}

TEST(MaskPainter, LargeSequencesMixEveryOwnerAlike) {
  const MaskModel model{MaskSpec::parse("full"), {PartitionKind::fold, 1'000'000'000, 64}};
  const Image image = painted(model, MaskPaint{}, 50);
  double expected[3] = {};
  for (int owner = 0; owner < 64; ++owner)
    for (int c = 0; c < 3; ++c)
      expected[c] += channel(owner_color(Theme::dark, owner, 64), c) / 64.0;
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(channel(image.at(7, 30), c), expected[c], 1);
}

// The second one's table may lie where the first one's was.
TEST(MaskPainter, ADealIsNotTakenForAnEarlierOne) {
  for (int trial = 0; trial < 4; ++trial) {
    const int first = trial % 2;
    MaskModel model{MaskSpec::parse("full"), {}};
    model.partition_spec = PartitionSpec::recorded("dealt", {first, 20, 1 - first, 20}, 40, 2);
    model.partition = model.partition_spec.of(40, 2);
    EXPECT_LE(distance(painted(model, {}, 20).at(5, 5), owner_color(Theme::dark, first, 2)), 1);
  }
}

// Pairs that are still to be attended are faint, what is attended now stands out, and other ranks are
// dimmed.
TEST(MaskPainter, StrengthTellsWhatIsDoneNowAndWhose) {
  const MaskModel model{MaskSpec::parse("full"), {PartitionKind::contiguous, 40, 2}};
  MaskProgress progress{.done = {1, 0, 0.5, 0}, .active = {false, false, false, false}};
  MaskPaint paint;
  paint.progress = &progress;
  const Image faint = painted(model, paint, 20);
  const Color empty = palette_of(Theme::dark).empty_tile;
  const Color owners[] = {owner_color(Theme::dark, 0, 2), owner_color(Theme::dark, 1, 2)};
  EXPECT_LE(distance(faint.at(5, 5), owners[0]), 1);
  EXPECT_LE(distance(faint.at(15, 5), mix(empty, owners[1], 0.2)), 1);
  EXPECT_LE(distance(faint.at(5, 15), mix(empty, owners[0], 0.6)), 1);
  progress = {.done = {0, 0, 0, 0}, .active = {false, true, false, false}};
  const Image now = painted(model, paint, 40);
  EXPECT_GT(distance(now.at(30, 10), empty), 2 * distance(now.at(30, 30), empty));
  // One of another size is not taken for this recording's.
  progress.done.pop_back();
  EXPECT_LE(distance(painted(model, paint, 20).at(15, 5), owners[1]), 1);
  paint = {.only_rank = 1};
  const Image dimmed = painted(model, paint, 20);
  EXPECT_LT(2 * distance(dimmed.at(5, 5), empty), distance(dimmed.at(5, 15), empty));
}

TEST(MaskPainter, AnySizeAtAll) {
  for (const PartitionKind kind : kAllPartitions)
    for (const MaskOrder order : {MaskOrder::global, MaskOrder::local})
      for (const Index seqlen : {Index{1}, Index{3}, kMaxSeqlen})
        for (const int ranks : {1, 5}) {
          const MaskModel model{MaskSpec::parse("causal"), {kind, seqlen, ranks}};
          MaskPaint paint;
          paint.order = order;
          for (const auto& [width, height] : {std::pair{1, 1}, {0, 0}, {200, 3}, {3, 0}}) {
            Image image(width, height);
            paint_mask(model, paint, image);
            if (width > 0 && height > 0) {
              EXPECT_EQ(channel(image.at(0, 0), 3), 255);
            }
          }
        }
}

// ---
// What a recording's mask means: points of the picture against counting pair by pair, and how much
// of the matrix is attended at a moment.

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

// What one picture leaves for the next, which may be of another order or size.
TEST(MaskModel, PaintsAgainWhatItPaintsFirst) {
  const Trace trace = HandMade(4, "zigzag", "causal").trace();
  const MaskModel kept = *mask_model(trace);
  for (const int size : {24, 24, 40, 24})
    for (const MaskOrder order : {MaskOrder::global, MaskOrder::local, MaskOrder::local}) {
      MaskPaint paint;
      paint.order = order;
      EXPECT_EQ(painted(kept, paint, size).pixels, painted(*mask_model(trace), paint, size).pixels);
    }
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
            const Index query = global ? y : local_order[y];
            const Index key = global ? x : local_order[x];
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

TEST(MaskProgress, TheBackwardPassFillsUpAgain) {
  HandMade made(3);
  for (const int step : {0, 1, 2}) made.compute(0, step, step, step + 1);
  RingMoment moment;
  moment.ranks.resize(3);
  moment.ranks[0] = {4, 2, Pass::backward, RankMoment::computing, 0.5, -1};
  const MaskProgress progress = AttendedOrder(made.trace()).progress_at(moment);
  EXPECT_EQ(progress.done[0], 1);
  EXPECT_EQ(progress.done[1], 0);
  EXPECT_EQ(progress.done[2], 0.5);
  EXPECT_TRUE(progress.active[2]);
}

// Schemes other than the ring attend in another order, some of them two parts at a step. In the end
// everything is done.
TEST(MaskProgress, FollowsTheRecordedOrder) {
  HandMade made(4);
  for (const auto& [step, owner, begin] : {std::tuple(0, 0, 0),
                                           {1, 3, 10},
                                           {1, 1, 20},
                                           {2, 2, 30},
                                           {3, 1, 40},
                                           {3, 3, 50},
                                           {3, 3, 60}}) {
    made.compute(0, step, begin, begin + 10, 6);
    made.recording().events[0].back().kv_owner = owner;
  }
  const Trace trace = made.trace();
  RingMoment moment;
  moment.ranks.resize(4);
  const auto done_at = [&](int step, int owner, double share) {
    moment.ranks[0] = {step, owner, Pass::forward, RankMoment::computing, share, -1};
    std::vector<double> done = AttendedOrder(trace).progress_at(moment).done;
    done.resize(4);
    return done;
  };
  const double third = 6.0 / 18;  // of block 3, whose second and last visit has two parts
  EXPECT_EQ(done_at(1, 3, 0.5), (std::vector<double>{1, 0, 0, 0.5 * third}));
  EXPECT_EQ(done_at(1, 1, 0.5), (std::vector<double>{1, 0.25, 0, third}));
  EXPECT_EQ(done_at(2, 2, 0), (std::vector<double>{1, 0.5, 0, third}));
  EXPECT_EQ(done_at(3, 3, 1), (std::vector<double>{1, 1, 1, 1}));
}

// Queries travel: rank 0 attends its own block four times, and its row fills by a quarter each time.
TEST(MaskProgress, OfTravellingQueriesFillsRows) {
  HandMade made(4, "contiguous", "full", "pass-q");
  for (int step = 0; step < 4; ++step) {
    made.compute(0, step, 10 * step, 10 * step + 10, 6);
    made.recording().events[0].back().kv_owner = 0;
  }
  RingMoment moment;
  moment.ranks.resize(4);
  moment.ranks[0] = {2, 0, Pass::forward, RankMoment::computing, 0.5, -1};
  std::vector<double> done = AttendedOrder(made.trace()).progress_at(moment).done;
  done.resize(4);
  EXPECT_EQ(done, std::vector<double>(4, 0.625));
}

TEST(MaskProgress, OfNothing) {
  EXPECT_TRUE(AttendedOrder(Trace{}).progress_at(RingMoment{}).done.empty());
}

// A picture shows a few hundred stripes; with more of them every pixel is a mixture of all ranks.
TEST(MaskModel, ManyStripesMixRanks) {
  const auto mixes = [](PartitionKind kind, Index seqlen) {
    return MaskModel{MaskSpec::parse("causal"), {kind, seqlen, 4}}.mixes_ranks();
  };
  EXPECT_FALSE(mixes(PartitionKind::striped, 64));
  EXPECT_TRUE(mixes(PartitionKind::striped, 4096));
  EXPECT_TRUE(mixes(PartitionKind::fold, 4096));
  EXPECT_FALSE(mixes(PartitionKind::zigzag, 4096));
  EXPECT_FALSE(mixes(PartitionKind::contiguous, 4096));
}

// ---
// Shares of allowed pairs per pixel, against counting pair by pair, for every mask, partition and
// order; and at sizes that nobody can count, against what geometry says.

// Global positions of the picture's lines, top to bottom.
std::vector<Index> lines_of(const Partition& partition, MaskOrder order) {
  std::vector<Index> lines;
  for (Index i = 0; order == MaskOrder::global && i < partition.seqlen; ++i) lines.push_back(i);
  for (int rank = 0; order == MaskOrder::local && rank < partition.world_size; ++rank)
    for (Index i = 0; i < partition.rows_of(rank).size(); ++i)
      lines.push_back(partition.rows_of(rank).global_position(i));
  return lines;
}

Interval lines_in(int pixel, int pixels, Index lines) {
  const Index first = pixel * lines / pixels;
  return {first, std::max(first + 1, (pixel + 1) * lines / pixels)};
}

struct Picture {
  MaskModel model;
  Mask mask;
  PictureSide queries, keys;
  MaskShares shares;

  Picture(const MaskSpec& spec, const Partitions& partition, MaskOrder order, int width, int height)
      : model{spec, partition},
        mask(model.mask()),
        queries(partition.queries, order, height),
        keys(partition, order, width),
        shares(model, mask, order, queries, keys) {}
  Picture(const Picture&) = delete;
};

TEST(MaskShares, AreThoseOfCountingPairs) {
  for (const Index seqlen : {1, 2, 7, 12})
    for (const DefinedMask& defined : all_masks(seqlen)) {
      const MaskSpec spec = MaskSpec::parse(defined.text());
      for (const PartitionKind kind : kAllPartitions)
        for (const int ranks : {1, 3, 5, 14})
          for (const MaskOrder order : {MaskOrder::global, MaskOrder::local})
            for (const auto& [width, height] : {std::pair{5, 3}, {12, 12}, {17, 30}}) {
              const Partition partition{kind, seqlen, ranks};
              const Picture picture(spec, partition, order, width, height);
              const std::vector<Index> lines = lines_of(partition, order);
              std::vector<double> shares;
              for (int y = 0; y < height; ++y) {
                picture.shares.line(y, shares);
                ASSERT_EQ(shares.size(), static_cast<std::size_t>(width));
                const Interval rows = lines_in(y, height, seqlen);
                for (int x = 0; x < width; ++x) {
                  const Interval columns = lines_in(x, width, seqlen);
                  int allowed = 0;
                  for (Index q = rows.first; q < rows.last; ++q)
                    for (Index k = columns.first; k < columns.last; ++k)
                      allowed += defined.allows(lines[q], lines[k]);
                  ASSERT_NEAR(shares[x],
                              static_cast<double>(allowed) /
                                  static_cast<double>(rows.size() * columns.size()),
                              1e-12)
                      << defined.name() << ", " << name_of(kind) << " on " << ranks << ", "
                      << (order == MaskOrder::local ? "local" : "global") << ", pixel " << x << ", "
                      << y << " of " << width << " x " << height;
                }
              }
            }
    }
}

// Fewer queries than keys make a rectangle, whose lines are the queries' positions.
TEST(MaskShares, OfFewerQueriesThanKeys) {
  constexpr Index kKeys = 12, kQueries = 5, kFirst = 4;
  for (const DefinedMask& defined : all_masks(kKeys))
    for (const MaskOrder order : {MaskOrder::global, MaskOrder::local}) {
      const Partition queries{PartitionKind::striped, kQueries, 3};
      const Partitions both({PartitionKind::zigzag, kKeys, 3}, queries, kFirst);
      const Picture picture(MaskSpec::parse(defined.text()), both, order, kKeys, kQueries);
      const std::vector<Index> lines = lines_of(queries, order), columns = lines_of(both, order);
      std::vector<double> shares;
      for (int y = 0; y < kQueries; ++y) {
        picture.shares.line(y, shares);
        for (int x = 0; x < kKeys; ++x) {
          const bool allowed = defined.allows(kFirst + lines[y], columns[x]);
          ASSERT_EQ(shares[x], allowed ? 1 : 0) << defined.name();
          const auto point =
              mask_point(picture.model, order, (x + 0.5) / kKeys, (y + 0.5) / kQueries);
          ASSERT_TRUE(point.has_value());
          EXPECT_EQ(point->global_query, kFirst + lines[y]);
          EXPECT_EQ(point->allowed, allowed);
        }
      }
    }
}

TEST(MaskShares, OfASequenceOfABillion) {
  // Causal, in global order: half of each pixel on the diagonal, all below, nothing above.
  const Picture picture(MaskSpec::parse("causal"), {PartitionKind::zigzag, 1'000'000'000, 64},
                        MaskOrder::global, 100, 100);
  std::vector<double> shares;
  for (const int y : {0, 1, 50, 99}) {
    picture.shares.line(y, shares);
    for (int x = 0; x < 100; ++x) EXPECT_NEAR(shares[x], x < y ? 1 : x == y ? 0.5 : 0, 1e-6) << x;
  }
}

TEST(PictureSide, SharesOfRanksInAPixel) {
  for (const PartitionKind kind : kAllPartitions)
    for (const MaskOrder order : {MaskOrder::global, MaskOrder::local})
      for (const Index seqlen : {1, 5, 23, 100}) {
        const Partition partition{kind, seqlen, 4};
        const PictureSide side(partition, order, 9);
        std::vector<int> holder(static_cast<std::size_t>(seqlen));
        for (int rank = 0; rank < 4; ++rank)
          for (Index i = 0; i < partition.rows_of(rank).size(); ++i)
            holder[partition.rows_of(rank).global_position(i)] = rank;
        const std::vector<Index> lines = lines_of(partition, order);
        for (int pixel = 0; pixel < 9; ++pixel) {
          std::vector<double> expected(4, 0), given(4, 0);
          const Interval rows = lines_in(pixel, 9, seqlen);
          for (Index i = rows.first; i < rows.last; ++i)
            expected[holder[lines[i]]] += 1.0 / static_cast<double>(rows.size());
          for (const auto& [rank, share] : side.ranks_in(pixel)) given[rank] += share;
          for (std::size_t rank = 0; rank < 4; ++rank)
            EXPECT_NEAR(given[rank], expected[rank], 1e-6)
                << name_of(kind) << " " << seqlen << ", pixel " << pixel << ", rank " << rank;
        }
      }
}

}  // namespace
}  // namespace ringscope::viz
