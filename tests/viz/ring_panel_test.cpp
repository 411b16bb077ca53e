#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/viz/panel_stage.h"
#include "viz/panels/ring/ring_picture.h"

namespace ringscope::viz {
namespace {

TEST(RingPanel, DrawsEverything) { draws_everything(draw_ring); }

TEST(RingLayout, RankZeroIsOnTopAndSendingGoesClockwise) {
  const RingLayout ring = ring_layout({0, 0, 400, 400}, 4);
  const ImVec2 top = ring.at(0, ring.radius), right = ring.at(1, ring.radius);
  EXPECT_NEAR(top.x, 200, 0.01);
  EXPECT_LT(top.y, 150);
  EXPECT_GT(right.x, 250);
  EXPECT_NEAR(right.y, 200, 0.01);
}

// Discs and tiles keep inside the box and apart from their neighbours.
TEST(RingLayout, FitsWithoutOverlap) {
  for (const int ranks : {1, 2, 3, 4, 8, 16, 64, 128})
    for (const auto& [width, height] : {std::pair(300, 250), {600, 600}, {1600, 900}}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, width " + std::to_string(width));
      const Box box{10, 20, 10.0f + static_cast<float>(width), 20.0f + static_cast<float>(height)};
      const RingLayout ring = ring_layout(box, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const Box tile = ring.tile(rank);
        EXPECT_GE(tile.x0, box.x0);
        EXPECT_LE(tile.x1, box.x1);
        EXPECT_GE(tile.y0, box.y0);
        EXPECT_LE(tile.y1, box.y1);
      }
      if (ranks == 1) continue;
      const ImVec2 a = ring.at(0, ring.radius), b = ring.at(1, ring.radius);
      EXPECT_GT(std::hypot(a.x - b.x, a.y - b.y), 2 * ring.disc);
    }
}

TEST(RingLayout, FindsTheRankUnderTheMouse) {
  const RingLayout ring = ring_layout({0, 0, 500, 500}, 8);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(ring.rank_at(ring.at(rank, ring.radius)), rank);
    EXPECT_EQ(ring.rank_at(ring.tile(rank).center()), rank);
    EXPECT_EQ(ring.rank_at(ring.at(rank + 0.5, ring.radius)), -1);
  }
  EXPECT_EQ(ring.rank_at({250, 250}), -1);
  EXPECT_EQ(ring_layout({0, 0, 500, 500}, 0).rank_at({250, 250}), -1);
}

TEST(RingPanel, ClickSelectsARankAndClickBesidesClears) {
  Stage stage(draw_ring, documents_of(ring_trace(4)), 500, 500);
  const RingLayout ring = ring_layout(stage.box(), 4);
  stage.click(ring.at(2, ring.radius));
  EXPECT_EQ(stage.session.selected_rank, 2);
  stage.click(ring.tile(3).center());
  EXPECT_EQ(stage.session.selected_rank, 3);
  stage.click({3, 497});
  EXPECT_EQ(stage.session.selected_rank, -1);
}

TEST(RingPanel, TooltipOverARankOnly) {
  Stage stage(draw_ring, documents_of(ring_trace(4)), 500, 500);
  const RingLayout ring = ring_layout(stage.box(), 4);
  stage.hover(ring.at(1, ring.radius));
  EXPECT_TRUE(Stage::tooltip_shown());
  stage.hover({3, 497});
  EXPECT_FALSE(Stage::tooltip_shown());
}

// At step 2 the tile of rank r shows KV (r - 2) mod 4: its frame has that owner's colour.
TEST(RingPanel, TilesHaveTheColourOfTheBlockHeld) {
  Stage stage(draw_ring, documents_of(ring_trace(4)), 600, 600);
  const RingLayout ring = ring_layout(stage.box(), 4);
  for (const int step : {0, 2, 3}) {
    stage.session.set_axis_mode(AxisMode::steps);
    stage.session.seek(step + 0.9);
    const Image image = stage.picture();
    for (int rank = 0; rank < 4; ++rank) {
      const Box tile = ring.tile(rank);
      std::set<Color> seen;
      for (int x = static_cast<int>(tile.x0); x < static_cast<int>(tile.x1); ++x)
        for (int y = static_cast<int>(tile.y0); y < static_cast<int>(tile.y1); ++y)
          seen.insert(image.at(x, y));
      const int owner = (rank - step + 4) % 4;
      EXPECT_TRUE(seen.count(owner_color(stage.session.theme, owner, 4)))
          << "rank " << rank << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace ringscope::viz
