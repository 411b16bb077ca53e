// Rows, zooming, panning, and finding what the mouse points at.
#include "viz/data/timeline/timeline_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "viz/data/timeline/timeline_painter.h"

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
  // Within a step, too.
  EXPECT_DOUBLE_EQ(zoomed({1, 1.5, 0}, 1.125, 2, 4, AxisMode::steps).begin, 1.0625);
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

// ---
// The timeline's picture, pixel by pixel where it is made by hand, and against sums made slice by
// slice where it is crowded.

// A trace and everything that painting needs; rows are 22 pixels high, of which the topmost and the
// lowest are air.
struct Painted {
  Trace trace;
  Axis axis{trace};
  TimelineIndex index{trace};
  TimelineLayout layout;
  TimelineView view;
  TimelinePaint paint;
  Image image;

  Painted(Trace t, int width, AxisMode mode, ColorBy by = ColorBy::owner)
      : trace(std::move(t)),
        layout(make_layout(trace, static_cast<float>(width), 4000)),
        view(fitted(axis.length(mode))),
        paint{mode, by, Theme::dark, false},
        image(width, static_cast<int>(layout.content_height)) {
    draw();
  }
  void draw() { paint_timeline(trace, axis, index, layout, view, paint, image); }

  const Palette& palette() const { return palette_of(paint.theme); }
  Color color(const TraceEvent& slice) const {
    return slice_color(paint.theme, paint.color_by, slice, trace.info.world_size);
  }
  Color background(std::uint32_t row) const {
    const bool odd = (trace.rows[row].lane % 4) % 2 == 1;
    return odd ? palette().row_odd : palette().row_even;
  }
  // A row's column from below.
  std::vector<Color> column(std::uint32_t row, int c) const {
    const auto top = static_cast<int>(layout.place_of(row)->y);
    std::vector<Color> pixels;
    for (int y = top + 20; y > top; --y) pixels.push_back(image.at(c, y));
    return pixels;
  }
};

using Runs = std::vector<std::pair<Color, int>>;

Runs runs_of(const std::vector<Color>& pixels) {
  Runs runs;
  for (const Color pixel : pixels) {
    if (runs.empty() || runs.back().first != pixel) runs.emplace_back(pixel, 0);
    ++runs.back().second;
  }
  return runs;
}

// Owners 0 and 1 in turn on rank 0, ten nanoseconds a pixel.
class HandMadePicture : public ::testing::Test {
 protected:
  HandMadePicture()
      : painted(HandMade(2)
                    .compute(0, 0, 0, 100)
                    .compute(0, 1, 100, 147)  // nothing behind it
                    .compute(0, 0, 203, 253)
                    .compute(0, 0, 300, 304)  // two that share a column
                    .compute(0, 1, 304, 306)
                    .compute(0, 0, 400, 441)  // a gap narrower than a pixel
                    .compute(0, 1, 443, 500)
                    .compute(0, 0, 600, 646)  // neighbours that meet within a pixel
                    .compute(0, 1, 646, 700)
                    .compute(0, 0, 700, 752)  // something narrow between the two
                    .compute(0, 1, 752, 753)
                    .compute(0, 0, 753, 800)
                    .compute(0, 0, 900, 900)  // takes no time
                    .compute(1, 1, 0, 1000)
                    .trace(),
                100, AxisMode::time),
        own{painted.color(painted.trace.slices(0)[0])},
        other{painted.color(painted.trace.slices(0)[1])},
        none{painted.background(0)} {}

  Runs at(int c) const { return runs_of(painted.column(0, c)); }
  Color edge(Color color) const { return mix(color, none, 0.5); }

  Painted painted;
  Color own, other, none;
};

// Wide slices are sharp and end in a darker line; what shares a column is stacked by its shares.
TEST_F(HandMadePicture, ColumnsShowWhatTheyHold) {
  const struct {
    int from, to;
    Runs runs;
  } columns[] = {{0, 9, {{own, 20}}},
                 {9, 10, {{edge(own), 20}}},
                 {10, 14, {{other, 20}}},
                 {14, 15, {{edge(other), 20}}},  // it has more than half of this one
                 {15, 20, {{none, 20}}},
                 {20, 24, {{own, 20}}},
                 {24, 25, {{edge(own), 20}}},
                 {25, 30, {{none, 20}}},  // and less than half of column 25
                 {30, 31, {{own, 8}, {other, 4}, {none, 8}}},
                 {31, 40, {{none, 20}}},
                 {40, 43, {{own, 20}}},
                 {43, 44, {{edge(own), 20}}},
                 {44, 45, {{own, 2}, {other, 14}, {none, 4}}},
                 {45, 49, {{other, 20}}},
                 {49, 50, {{edge(other), 20}}},
                 {60, 64, {{own, 20}}},
                 {64, 65, {{edge(own), 20}}},  // neighbours meet at a whole pixel
                 {65, 69, {{other, 20}}},
                 {70, 74, {{own, 20}}},
                 {74, 75, {{edge(own), 20}}},
                 {75, 76, {{own, 18}, {other, 2}}},
                 {76, 79, {{own, 20}}},
                 {90, 91, {{own, 1}, {none, 19}}},  // what takes no time still has a pixel
                 {91, 100, {{none, 20}}}};
  for (const auto& [from, to, runs] : columns)
    for (int c = from; c < to; ++c) EXPECT_EQ(at(c), runs) << "column " << c;
}

TEST_F(HandMadePicture, RowsHaveAirAndRanksAGap) {
  EXPECT_EQ(painted.image.at(5, 0), none);
  EXPECT_EQ(painted.image.at(5, 1), own);
  EXPECT_EQ(painted.image.at(5, 20), own);
  EXPECT_EQ(painted.image.at(5, 21), none);
  EXPECT_EQ(painted.image.at(5, 22), painted.palette().row_odd);
  for (int y = 88; y < 94; ++y) EXPECT_EQ(painted.image.at(5, y), painted.palette().background);
  EXPECT_EQ(painted.image.at(5, 95), own);  // of rank 1, at step 1
}

TEST_F(HandMadePicture, DimmedForTheCriticalPath) {
  painted.paint.dim_all = true;
  painted.draw();
  EXPECT_EQ(at(5), (Runs{{mix(none, own, 0.35), 20}}));
}

TEST_F(HandMadePicture, ScrollsByWholeLines) {
  const Image whole = painted.image;
  painted.view.scroll_y = 13;
  painted.draw();
  for (int y = 0; y + 13 < whole.height; ++y)
    for (int x = 0; x < whole.width; ++x) ASSERT_EQ(painted.image.at(x, y), whole.at(x, y + 13));
  EXPECT_EQ(painted.image.at(0, whole.height - 1), painted.palette().background);
}

TEST_F(HandMadePicture, FillsTheImageWhateverWasInItBefore) {
  const Image first = painted.image;
  painted.image.fill(0, 0, painted.image.width, painted.image.height, rgb(255, 0, 255));
  painted.draw();
  EXPECT_EQ(painted.image.pixels, first.pixels);
}

// The parts of a slice in pixels: on the step axis one in each step of its rank that it lies in.
std::vector<std::pair<double, double>> extents(const Painted& p, std::uint32_t row,
                                               const TraceEvent& s) {
  const int rank = p.trace.rank_of_row(row);
  const auto x_of = [&](double position) {
    return (position - p.view.begin) * p.image.width / p.view.width();
  };
  const double x0 = x_of(p.axis.position(p.paint.mode, rank, s.begin_ns));
  if (s.begin_ns == s.end_ns) return {{x0, x0}};
  if (p.paint.mode == AxisMode::time)
    return {{x0, x_of(p.axis.position(AxisMode::time, rank, s.end_ns))}};
  std::vector<std::pair<double, double>> parts;
  for (int step = 0; step < p.axis.steps(); ++step) {
    const std::int64_t begin = p.axis.step_begin_ns(rank, step);
    const std::int64_t from = std::max(s.begin_ns, begin);
    const std::int64_t to = std::min(s.end_ns, p.axis.step_begin_ns(rank, step + 1));
    const auto length = static_cast<double>(p.axis.step_length_ns(step));
    if (from < to)
      parts.emplace_back(x_of(step + static_cast<double>(from - begin) / length),
                         x_of(step + static_cast<double>(to - begin) / length));
  }
  return parts;
}

// How much of column c of a row each colour takes, and which are there at all; slice by slice. None
// at the side of a slice that is drawn by itself.
using Shares = std::map<Color, double>;  // in pixels
std::optional<Shares> shares(const Painted& p, std::uint32_t row, int c) {
  Shares result;
  for (const TraceEvent& s : p.trace.slices(row))
    for (const auto& [x0, x1] : extents(p, row, s)) {
      if (x1 - x0 >= 3 && (std::abs(x0 - c) < 2 || std::abs(x1 - c) < 2)) return std::nullopt;
      const double inside = std::min(x1, c + 1.0) - std::max(x0, static_cast<double>(c));
      const bool point = s.begin_ns == s.end_ns && x0 >= c && x0 < c + 1;
      if (inside <= 1e-6 && !point) continue;
      result[p.color(s)] += std::max(inside, 0.0) * 20;
    }
  return result;
}

// Every colour as high as its share, up to a pixel, and what the smallest take that have less than
// a pixel; no colour that is not there; and all together as high as the time that is not empty.
void expect_exact(const Painted& p, std::uint32_t row) {
  int left_out = 0;
  for (int c = 0; c < p.image.width; ++c) {
    const auto known = shares(p, row, c);
    if (!known) {
      ASSERT_LE(++left_out, 1 + p.image.width / 10);
      continue;
    }
    const Shares& expected = *known;
    std::map<Color, int> seen;
    for (const Color pixel : p.column(row, c))
      if (pixel != p.background(row)) ++seen[pixel];
    double total = 0, lifted = 0;
    for (const auto& [color, share] : expected) {
      total += share;
      lifted += std::max(0.0, 1 - share);
    }
    int height = 0;
    for (const auto& [color, pixels] : seen) {
      height += pixels;
      ASSERT_TRUE(expected.contains(color)) << "row " << row << " column " << c;
    }
    for (const auto& [color, share] : expected) {
      ASSERT_GE(seen[color], 1) << "row " << row << " column " << c;
      ASSERT_NEAR(seen[color], share, 1.01 + lifted) << "row " << row << " column " << c;
    }
    const auto least = static_cast<double>(expected.size());
    ASSERT_NEAR(height, std::clamp(total, std::min(least, 20.0), 20.0), 0.51)
        << "row " << row << " column " << c;
  }
}

// At these widths no slice is three pixels wide.
TEST(Crowded, EveryColumnShowsExactSumsOfTheWholeAndOfParts) {
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps})
    for (const auto& [width, from, to] : {std::tuple{1, 0.0, 1.0},
                                          {2, 0, 1},
                                          {37, 0, 1},
                                          {120, 0, 1},
                                          {90, 0, 0.7},
                                          {90, 0.31, 0.9},
                                          {90, 0.2, 1.3}}) {
      Painted p(crowded(3, 5000, 3), width, mode);
      p.view = {from * p.axis.length(mode), to * p.axis.length(mode), 0};
      p.draw();
      for (std::uint32_t row = 0; row < p.trace.rows.size(); ++row) expect_exact(p, row);
    }
}

// One row with one slice of each kind in turn; hundreds in a column.
Trace kinds_in_turn(int slices, std::int64_t length, std::int64_t gap) {
  Trace trace;
  trace.ranks.push_back({0, "process", 0, 1});
  trace.lanes.push_back({0, 0, "thread", 0, 1});
  trace.names = {"a"};
  std::vector<TraceEvent>& all = trace.events.emplace_back();
  for (int i = 0; i < slices; ++i) {
    TraceEvent s = plain_slice();
    s.lane = i % 5 == 0 ? Lane::communication : Lane::compute;
    s.begin_ns = i * (length + gap);
    s.end_ns = s.begin_ns + length;
    all.push_back(s);
  }
  trace.rows.push_back({0, 0, 0, static_cast<std::uint32_t>(all.size())});
  trace.end_ns = all.back().end_ns;
  trace.slice_count = all.size();
  return trace;
}

TEST(Crowded, OneNanosecondOfWaitingAmongAHundredThousandSlicesIsSeen) {
  Trace trace = kinds_in_turn(100000, 90, 10);
  TraceEvent& wait = trace.slices(0)[54321];
  wait.lane = Lane::wait;
  wait.end_ns = wait.begin_ns + 1;
  const Painted p(trace, 200, AxisMode::time, ColorBy::kind);
  const Color color = p.palette().of(Lane::wait);
  for (int c = 0; c < 200; ++c) {
    const std::vector<Color> column = p.column(0, c);
    EXPECT_EQ(std::count(column.begin(), column.end(), color), c == 54321 * 200 / 100000 ? 1 : 0)
        << c;
  }
}

TEST(Crowded, HundredsInAColumnAreSummedInBlocks) {
  const Painted p(kinds_in_turn(100000, 50, 50), 100, AxisMode::time, ColorBy::kind);
  const Color compute = p.palette().of(Lane::compute);
  const Color message = p.palette().of(Lane::communication);
  // Half of the time is empty, a fifth of the rest no computing.
  for (int c = 0; c < 100; ++c)
    EXPECT_EQ(runs_of(p.column(0, c)),
              (Runs{{message, 2}, {compute, 8}, {p.palette().row_even, 10}}))
        << c;
}

TEST(Crowded, WaitingIsSeenEvenWhereThereAreMoreColorsThanPixels) {
  Trace trace = kinds_in_turn(6000, 90, 10);
  for (std::size_t i = 0; i < trace.slices(0).size(); ++i)
    trace.slices(0)[i].lane = static_cast<Lane>(i % 6);
  const Axis axis(trace);
  const TimelineIndex index(trace);
  const TimelineLayout layout = make_layout(trace, 50, 1);  // three pixels high
  ASSERT_EQ(layout.rows[0].height, 3);
  Image image(50, 3);
  const TimelinePaint paint{AxisMode::time, ColorBy::kind, Theme::dark, false};
  paint_timeline(trace, axis, index, layout, fitted(axis.length(AxisMode::time)), paint, image);
  const Color wait = palette_of(Theme::dark).of(Lane::wait);
  for (int c = 0; c < 50; ++c)
    EXPECT_TRUE(image.at(c, 0) == wait || image.at(c, 1) == wait || image.at(c, 2) == wait) << c;
}

// Scales and shifts that are powers of two, so that nothing is rounded.
TEST(Moving, PanningByWholePixelsShiftsThePicture) {
  Trace trace = crowded(2, 3000, 8);
  trace.end_ns = 1 << 18;
  Painted p(trace, 512, AxisMode::time);
  const double pixel = 64;
  p.view = {0, 512 * pixel, 0};
  p.draw();
  const Image before = p.image;
  for (const int shift : {1, 7, 300}) {
    p.view = {shift * pixel, (512 + shift) * pixel, 0};
    p.draw();
    for (int y = 0; y < before.height; ++y)
      for (int x = 4; x + 4 < 512 - shift; ++x)
        ASSERT_EQ(p.image.at(x, y), before.at(x + shift, y)) << x << " " << y;
  }
}

TEST(Moving, ZoomedInSlicesAreWhereTheAxisSays) {
  Painted p(crowded(2, 2000, 9), 800, AxisMode::time);
  p.view = zoomed(p.view, p.view.width() / 3, 60, p.axis.length(AxisMode::time), AxisMode::time);
  p.draw();
  int looked_at = 0;
  for (std::uint32_t row = 0; row < p.trace.rows.size(); ++row)
    for (const TraceEvent& s : p.trace.slices(row)) {
      const auto x_of = [&](std::int64_t ns) {
        return (p.axis.position(AxisMode::time, 0, ns) - p.view.begin) * 800 / p.view.width();
      };
      if (x_of(s.end_ns) - x_of(s.begin_ns) < 5) continue;
      const int c = static_cast<int>(x_of(s.begin_ns)) + 2;
      if (c < 0 || c >= 800) continue;
      EXPECT_EQ(runs_of(p.column(row, c)), (Runs{{p.color(s), 20}})) << row << " " << c;
      ++looked_at;
    }
  EXPECT_GT(looked_at, 20);
}

TEST(Index, TimeByClassIsExactForAnyStretch) {
  const Trace trace = crowded(3, 700, 5);
  const TimelineIndex index(trace);
  std::mt19937 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    const auto row = static_cast<std::uint32_t>(random() % trace.rows.size());
    const std::int64_t begin = random() % static_cast<unsigned>(trace.end_ns + 100) - 50;
    const std::int64_t end = begin + random() % (trial % 2 == 0 ? 500 : 60000);
    std::int64_t expected[TimelineIndex::kClasses] = {};
    const std::vector<std::uint8_t>& classes = index.row(row).classes;
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const TraceEvent& s = trace.slices(row)[i];
      expected[classes[i]] +=
          std::max<std::int64_t>(0, std::min(s.end_ns, end) - std::max(s.begin_ns, begin));
    }
    std::int64_t sums[TimelineIndex::kClasses];
    index.time_by_class(row, begin, end, sums);
    EXPECT_TRUE(std::equal(std::begin(sums), std::end(sums), std::begin(expected)))
        << "row " << row << " [" << begin << ", " << end << ")";
  }
}

TEST(Odd, NothingToPaint) {
  const Trace empty;
  Image image(20, 10, rgb(1, 2, 3));
  paint_timeline(empty, Axis(empty), TimelineIndex(empty), make_layout(empty, 20, 10), fitted(0),
                 {}, image);
  for (const Color pixel : image.pixels) EXPECT_EQ(pixel, palette_of(Theme::dark).background);

  Painted p(HandMade(3).compute(1, 0, 5, 5).trace(), 30, AxisMode::time);  // no length at all
  p.view = {0, 0, 0};
  p.draw();
  p.view = {std::nan(""), 1, 0};
  p.draw();
  p.paint.mode = AxisMode::steps;
  p.view = fitted(1);
  p.draw();
  Image none(0, 0);
  paint_timeline(p.trace, p.axis, p.index, p.layout, fitted(1), p.paint, none);
  EXPECT_TRUE(none.pixels.empty());
}

TEST(Odd, AStepAxisThatATraceHasNotIsEmpty) {
  const Painted p(kinds_in_turn(10, 5, 5), 40, AxisMode::steps);
  for (int c = 0; c < 40; ++c) EXPECT_EQ(runs_of(p.column(0, c)).size(), 1u);
}

}  // namespace
}  // namespace ringscope::viz
