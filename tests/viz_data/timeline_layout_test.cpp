// Rows, zooming, panning, and finding what the mouse points at.
#include "viz/data/timeline/timeline_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/viz_data/hand_made.h"

namespace ringscope::viz {
namespace {

constexpr AxisMode kTime = AxisMode::time;

// Of many ranks a simulation records some. The others take no room.
TEST(Layout, RanksOfWhichNothingWasRecordedAreLeftOut) {
  HandMade made(40);
  for (const int rank : {3, 17}) made.compute(rank, 0, 0, 100, 1);
  const Trace trace = made.trace();
  const TimelineLayout layout = make_layout(trace, 800, 300);
  ASSERT_EQ(layout.ranks.size(), 2u);
  EXPECT_EQ(layout.ranks[0].rank, 3);
  EXPECT_EQ(layout.ranks[1].rank, 17);
  EXPECT_EQ(layout.place_of(trace.row_of(0, Lane::compute)), nullptr);
  EXPECT_GT(layout.place_of(trace.row_of(17, Lane::wait))->height, 10);
  made.recording().info.failure = RunEnd{"killed", 0, 0};  // there, silence tells something
  EXPECT_EQ(make_layout(made.trace(), 800, 300).ranks.size(), 40u);
}

TEST(View, ZoomKeepsThePointUnderTheCursor) {
  const TimelineView view{20000, 60000, 7};
  const TimelineView closer = zoomed(view, 30000, 2, 100000, kTime);
  EXPECT_DOUBLE_EQ(closer.begin, 25000);
  EXPECT_DOUBLE_EQ(closer.end, 45000);
  EXPECT_EQ(closer.scroll_y, 7);
  const TimelineView back = zoomed(closer, 30000, 0.5, 100000, kTime);
  EXPECT_DOUBLE_EQ(back.begin, view.begin);
  EXPECT_DOUBLE_EQ(back.end, view.end);
}

TEST(View, ZoomStaysWithinTheAxis) {
  const TimelineView out = zoomed({40000, 60000, 0}, 41000, 0.01, 100000, kTime);
  EXPECT_EQ(out.begin, 0);
  EXPECT_EQ(out.end, 100000);
  const TimelineView at_the_end = zoomed({90000, 100000, 0}, 99000, 0.5, 100000, kTime);
  EXPECT_EQ(at_the_end.end, 100000);
  EXPECT_DOUBLE_EQ(at_the_end.width(), 20000);
  const TimelineView nearest = zoomed({0, 100000, 0}, 50000, 1e12, 100000, kTime);
  EXPECT_DOUBLE_EQ(nearest.width(), 1000);
  EXPECT_GT(zoomed({0, 4, 0}, 2, 1e12, 4, AxisMode::steps).width(), 0);
  // A trace shorter than the closest zoom is shown whole.
  EXPECT_EQ(zoomed(fitted(30), 10, 5, 30, kTime), fitted(30));
}

TEST(View, ZoomByNonsenseDoesNothing) {
  const TimelineView view{20, 60, 0};
  for (const double factor : {0.0, -1.0, std::nan("")})
    EXPECT_EQ(zoomed(view, 30, factor, 100, kTime), view);
}

TEST(View, PanStopsAtTheEnds) {
  const TimelineView view{20, 60, 3};
  EXPECT_EQ(panned(view, 10, 100), (TimelineView{30, 70, 3}));
  EXPECT_EQ(panned(view, -50, 100), (TimelineView{0, 40, 3}));
  EXPECT_EQ(panned(view, 50, 100), (TimelineView{60, 100, 3}));
}

TEST(View, FittingAndFraming) {
  EXPECT_EQ(fitted(500), (TimelineView{0, 500, 0}));
  EXPECT_EQ(fitted(0).width(), 1);
  const TimelineView frame = framed(40000, 48000, 100000, kTime, 5);
  EXPECT_NEAR(frame.begin, 39000, 1e-6);
  EXPECT_NEAR(frame.end, 49000, 1e-6);
  EXPECT_EQ(frame.scroll_y, 5);
  EXPECT_EQ(framed(0, 100000, 100000, kTime, 0), fitted(100000));
  // A slice that takes no time still has a view around it.
  EXPECT_GT(framed(40000, 40000, 100000, kTime, 0).width(), 0);
}

Trace ranks(int world_size) {
  HandMade made(world_size);
  for (int rank = 0; rank < world_size; ++rank) made.compute(rank, 0, 0, 1000);
  return made.trace();
}

TEST(Layout, RowsFollowOneAnotherWithGapsBetweenRanks) {
  const TimelineLayout layout = make_layout(ranks(3), 800, 200);
  ASSERT_EQ(layout.rows.size(), 12u);
  ASSERT_EQ(layout.ranks.size(), 3u);
  // (200 - 2 * 6) / 12 rows.
  for (const RowPlace& place : layout.rows) EXPECT_EQ(place.height, 15);
  EXPECT_EQ(layout.rows[1].y, 15);
  EXPECT_EQ(layout.rows[4].y, 4 * 15 + 6);
  EXPECT_EQ(layout.ranks[1].y, 4 * 15 + 6);
  EXPECT_EQ(layout.ranks[1].height, 4 * 15);
  EXPECT_EQ(layout.content_height, 12 * 15 + 2 * 6);
}

// Eight ranks in a window of 1600 x 900: computing and waiting are high enough for words.
TEST(Layout, LowRowsOfMessagesMakeRoomForWords) {
  const TimelineLayout layout = make_layout(ranks(8), 1500, 268);
  EXPECT_LE(layout.content_height, 268);
  for (std::size_t row = 0; row < layout.rows.size(); ++row)
    if (row % 4 == 0 || row % 4 == 3)
      EXPECT_GE(layout.rows[row].height, 11) << row;
    else
      EXPECT_GE(layout.rows[row].height, TimelineLayout::kMinRowHeight) << row;
  Trace foreign = ranks(8);
  foreign.is_ring = false;
  for (const RowPlace& place : make_layout(foreign, 1500, 268).rows)
    EXPECT_EQ(place.height, make_layout(foreign, 1500, 268).rows[0].height);
}

TEST(Layout, RowsAreNeitherHigherNorLowerThanCanBeRead) {
  EXPECT_EQ(make_layout(ranks(1), 800, 2000).rows[0].height, TimelineLayout::kMaxRowHeight);
  const TimelineLayout many = make_layout(ranks(100), 800, 300);
  EXPECT_EQ(many.rows[0].height, TimelineLayout::kMinRowHeight);
  EXPECT_GT(many.content_height, 300);
  EXPECT_EQ(make_layout(ranks(1), 800, 2000, 2).rows[0].height, 44);
  EXPECT_EQ(make_layout(ranks(1), 800, 2000, 0.001f).rows[0].height, TimelineLayout::kMinRowHeight);
}

// Pinned ranks come first, in their order, and a folded one has one low row.
TEST(Layout, RanksArePinnedAndFolded) {
  const Trace trace = ranks(4);
  const TimelineLayout layout = make_layout(trace, 800, 200, 1, {{2, 3}, {3, 0}});
  std::vector<int> order;
  for (const RankPlace& place : layout.ranks) order.push_back(place.rank);
  EXPECT_EQ(order, (std::vector<int>{2, 3, 0, 1}));
  EXPECT_EQ(layout.place_of(trace.row_of(2, Lane::compute))->y, 0);
  for (const int folded : {3, 0}) {
    EXPECT_EQ(layout.place_of(trace.row_of(folded, Lane::wait)), nullptr);
    EXPECT_EQ(layout.place_of(trace.row_of(folded, Lane::compute))->height,
              TimelineLayout::kFoldedHeight);
  }
  // (200 - 3 * 6 - 2 * 8) / 8 rows.
  EXPECT_EQ(layout.place_of(trace.row_of(1, Lane::wait))->height, 20);
  const RankPlace& third = layout.ranks[2];
  EXPECT_EQ(layout.row_at(fitted(1), third.y), trace.row_of(0, Lane::compute));
  EXPECT_EQ(ranks_between(layout, fitted(1), third.y + 1, 1), (std::vector<int>{2, 3, 0}));
  EXPECT_EQ(ranks_between(layout, {0, 1, third.y}, 1, 2), (std::vector<int>{0}));
  EXPECT_EQ(make_layout(trace, 800, 200, 1, {{0, 1, 2, 3}, {}}).rows,
            make_layout(trace, 800, 200).rows);
}

TEST(Layout, RowsWithoutSlicesInViewGiveUpTheirHeightWhereItIsShort) {
  const Trace trace = ranks(8);
  const auto computes = [](std::uint32_t row) { return row % 4 == 0; };
  for (const auto& [height, compute, other] :
       {std::tuple(200.0f, 14.0f, 3.0f), {620.0f, 18.0f, 18.0f}}) {
    const TimelineLayout layout = make_layout(trace, 800, height, 1, {}, computes);
    for (const RowPlace& place : layout.rows)
      EXPECT_EQ(place.height, place.row % 4 == 0 ? compute : other) << height;
  }
}

// A key is a round time of at most its room, and of at least two fifths of it.
TEST(Layout, TheKeySaysWhatALengthIsInTime) {
  const Trace trace = HandMade(1).compute(0, 0, 0, 1000).compute(0, 1, 1000, 5000).trace();
  const Axis axis(trace);
  for (const auto& [mode, end, step, pixels, ns] : {std::tuple(kTime, 5000.0, 0, 20.0f, 100),
                                                    {kTime, 5000.0, 1, 20.0f, 100},
                                                    {AxisMode::steps, 2.0, 0, 25.0f, 50},
                                                    {AxisMode::steps, 2.0, 1, 25.0f, 200},
                                                    {kTime, 10.0, 0, 0.0f, 0}}) {
    const ScaleKey key = scale_key(axis, mode, {0, end, 0}, step, 1000, 45);
    EXPECT_FLOAT_EQ(key.pixels, pixels) << end << " " << step;
    EXPECT_EQ(key.ns, ns) << end << " " << step;
  }
}

TEST(Layout, NothingToLayOut) {
  const TimelineLayout empty = make_layout(Trace{}, 800, 200);
  EXPECT_TRUE(empty.rows.empty());
  EXPECT_EQ(empty.content_height, 0);
  EXPECT_FALSE(empty.row_at(fitted(1), 10).has_value());

  Trace bare;  // a rank that recorded nothing, and has no lanes
  bare.ranks.push_back({7, "rank 7", 0, 0});
  const TimelineLayout layout = make_layout(bare, 800, 200);
  EXPECT_TRUE(layout.rows.empty());
  ASSERT_EQ(layout.ranks.size(), 1u);
  EXPECT_GT(layout.ranks[0].height, 0);
  EXPECT_FALSE(make_layout(bare, 0, 0).row_at(fitted(1), 0).has_value());
}

TEST(Layout, FindsRowsAfterScrolling) {
  const TimelineLayout layout = make_layout(ranks(3), 800, 200);
  TimelineView view = fitted(1000);
  EXPECT_EQ(layout.row_at(view, 0), 0u);
  EXPECT_EQ(layout.row_at(view, 14.5f), 0u);
  EXPECT_EQ(layout.row_at(view, 15), 1u);
  EXPECT_FALSE(layout.row_at(view, 62).has_value());  // between ranks
  EXPECT_FALSE(layout.row_at(view, -1).has_value());
  EXPECT_FALSE(layout.row_at(view, 1000).has_value());
  view.scroll_y = 66;
  EXPECT_EQ(layout.row_at(view, 0), 4u);
  ASSERT_NE(layout.place_of(5), nullptr);
  EXPECT_EQ(layout.place_of(5)->y, 81);
  EXPECT_EQ(layout.place_of(12), nullptr);
}

TEST(Layout, PixelsAndPositionsAreInverse) {
  const TimelineLayout layout = make_layout(ranks(1), 800, 100);
  const TimelineView view{100, 500, 0};
  EXPECT_EQ(layout.position_at(view, 0), 100);
  EXPECT_EQ(layout.position_at(view, 800), 500);
  EXPECT_EQ(layout.x_of(view, 300), 400);
  for (const float x : {0.0f, 17.25f, 799.0f})
    EXPECT_NEAR(layout.x_of(view, layout.position_at(view, x)), x, 1e-3f);
}

// Rank 0 computes in [0, 100), [100, 300) and [600, 604) of 1000; a pixel is a nanosecond.
struct Pointed {
  Trace trace = HandMade(1)
                    .compute(0, 0, 0, 100)
                    .compute(0, 0, 100, 300)
                    .compute(0, 0, 600, 604)
                    .wait(0, 0, 700, 1000)
                    .trace();
  Axis axis{trace};
  TimelineLayout layout = make_layout(trace, 1000, 88);
  TimelineView view = fitted(1000);

  std::optional<SliceId> at(float x, float y) const {
    return slice_at(trace, axis, kTime, layout, view, x, y);
  }
};

TEST(Pointing, FindsTheSliceThatCoversThePixel) {
  const Pointed p;
  EXPECT_EQ(p.at(50, 5), (SliceId{0, 0}));
  EXPECT_EQ(p.at(99.9f, 5), (SliceId{0, 0}));
  EXPECT_EQ(p.at(100, 5), (SliceId{0, 1}));
  EXPECT_EQ(p.at(800, 70), (SliceId{3, 0}));
  EXPECT_FALSE(p.at(800, 5).has_value());
  EXPECT_FALSE(p.at(50, 30).has_value());  // nothing was sent
  EXPECT_FALSE(p.at(50, 500).has_value());
}

TEST(Pointing, ASliceTooThinToHitIsFoundFromNearby) {
  const Pointed p;
  EXPECT_EQ(p.at(598, 5), (SliceId{0, 2}));
  EXPECT_EQ(p.at(606, 5), (SliceId{0, 2}));
  EXPECT_FALSE(p.at(609, 5).has_value());
  EXPECT_EQ(p.at(302, 5), (SliceId{0, 1}));
}

// To the nearest edge of the row, and else of any.
TEST(Pointing, SnapsToWhatABruteForceSearchFinds) {
  std::mt19937 rng(5);
  HandMade made(2);
  for (int rank = 0; rank < 2; ++rank) {
    int now = 0;
    for (int i = 0; i < 60; ++i) {
      const int begin = now + static_cast<int>(rng() % 40);
      now = begin + static_cast<int>(rng() % 60);
      made.compute(rank, i % 2, begin, now);
    }
  }
  const Trace trace = made.trace();
  const Axis axis(trace);
  const TimelineLayout layout = make_layout(trace, 700, 150);
  const TimelineView view = fitted(axis.length(kTime));
  for (int trial = 0; trial < 500; ++trial) {
    const float x = static_cast<float>(rng() % 7000) / 10;
    const std::uint32_t row = rng() % 2 * 4;  // one of the computing rows
    const float y = layout.place_of(row)->y + 1;
    const auto nearest = [&](std::uint32_t r) {
      double best = 1e18;
      for (const TraceEvent& s : trace.slices(r))
        for (const std::int64_t ns : {s.begin_ns, s.end_ns}) {
          const double edge = axis.position(kTime, 0, ns);
          if (std::abs(edge - layout.position_at(view, x)) <
              std::abs(best - layout.position_at(view, x)))
            best = edge;
        }
      return best;
    };
    double expected = nearest(row);
    if (std::abs(layout.x_of(view, expected) - x) > 8) expected = nearest(4 - row);
    const auto edge = snapped_edge(trace, axis, kTime, layout, view, x, y);
    if (std::abs(layout.x_of(view, expected) - x) > 8)
      EXPECT_FALSE(edge.has_value());
    else
      EXPECT_EQ(std::abs(*edge - layout.position_at(view, x)),
                std::abs(expected - layout.position_at(view, x)));
  }
}

TEST(Pointing, OnTheStepAxisEveryRankHasItsOwnTime) {
  const Trace trace = HandMade(2)
                          .compute(0, 0, 0, 100)
                          .compute(0, 1, 100, 1000)
                          .compute(1, 0, 0, 900)
                          .compute(1, 1, 900, 1000)
                          .trace();
  const Axis axis(trace);
  const TimelineLayout layout = make_layout(trace, 1000, 182);
  const TimelineView view = fitted(2);
  const float second_rank = layout.ranks[1].y + 2;
  EXPECT_EQ(slice_at(trace, axis, AxisMode::steps, layout, view, 510, 2), (SliceId{0, 1}));
  EXPECT_EQ(slice_at(trace, axis, AxisMode::steps, layout, view, 490, second_rank),
            (SliceId{4, 0}));
  EXPECT_EQ(snapped_edge(trace, axis, AxisMode::steps, layout, view, 497, second_rank), 1);
}

}  // namespace
}  // namespace ringscope::viz
