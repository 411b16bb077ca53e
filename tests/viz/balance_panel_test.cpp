#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/viz/panel_stage.h"
#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/balance/idle_bars.h"

namespace ringscope::viz {
namespace {

TEST(BalancePanel, DrawsEverything) { draws_everything(draw_balance); }

TEST(HeatLayout, CellsTileTheBoxAndAreFoundAgain) {
  const HeatLayout layout{{10, 20, 110, 80}, 3, 5};
  for (int rank = 0; rank < 3; ++rank)
    for (int step = 0; step < 5; ++step) {
      const auto found = layout.at(layout.cell(rank, step).center());
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(*found, std::pair(rank, step));
    }
  EXPECT_FLOAT_EQ(layout.cell(2, 4).x1, 110);
  EXPECT_FLOAT_EQ(layout.cell(2, 4).y1, 80);
  EXPECT_FALSE(layout.at({9, 30}).has_value());
  EXPECT_FALSE(layout.at({110, 30}).has_value());
  EXPECT_FALSE((HeatLayout{{10, 20, 110, 80}, 0, 0}).at({50, 50}).has_value());
}

TEST(BalancePanel, ClickOnACellGoesThere) {
  Stage stage(draw_balance, documents_of(ring_trace(4)), 900, 700);
  stage.session.set_axis_mode(AxisMode::steps);
  const HeatLayout layout{stage.box_of_picture("balance"), 4, 4};
  ASSERT_GT(layout.box.width(), 100);
  stage.click(layout.cell(3, 2).center());
  EXPECT_EQ(stage.session.selected_rank, 3);
  EXPECT_EQ(static_cast<int>(stage.session.playback.position()), 2);
  ASSERT_TRUE(stage.session.selected.has_value());
  const Slice& slice = stage.session.document().trace.slice(*stage.session.selected);
  EXPECT_EQ(slice.kind, Kind::compute);
  EXPECT_EQ(slice.step, 2);
  EXPECT_EQ(slice.kv_owner, 1);
}

TEST(BalancePanel, ClickOnABackwardCellGoesToTheBackwardPass) {
  Stage stage(draw_balance, documents_of(ring_trace(4, "zigzag", "causal", true)), 900, 700);
  stage.session.set_axis_mode(AxisMode::steps);
  const HeatLayout layout{stage.box_of_picture("balance"), 4, 8};
  stage.click(layout.cell(1, 6).center());
  EXPECT_EQ(static_cast<int>(stage.session.playback.position()), 6);
  ASSERT_TRUE(stage.session.selected.has_value());
  const Slice& slice = stage.session.document().trace.slice(*stage.session.selected);
  EXPECT_EQ(slice.pass, Pass::backward);
  EXPECT_EQ(slice.step, 2);
}

// A cell's colour is stronger the more pairs it has; contiguous causal: rank 3 has most at step 1,
// rank 0 has none.
TEST(BalancePanel, ColourGrowsWithPairs) {
  Stage stage(draw_balance, documents_of(ring_trace(4)), 900, 700);
  const HeatLayout layout{stage.box_of_picture("balance"), 4, 4};
  const Image image = stage.picture();
  const auto color = [&](int rank, int step) {
    const Box cell = layout.cell(rank, step);
    return image.at(static_cast<int>(cell.x0) + 4, static_cast<int>(cell.y0) + 4);
  };
  EXPECT_NE(color(0, 1), color(3, 1));
  EXPECT_EQ(color(0, 1), color(0, 2));  // nothing in either
  EXPECT_EQ(color(3, 1), color(3, 2));  // whole blocks
  EXPECT_NE(color(3, 0), color(3, 1));  // the diagonal block has half
}

TEST(BalancePanel, TabsChooseWhatIsShown) {
  Stage stage(draw_balance, documents_of(ring_trace(4)), 900, 700);
  const Box cells = stage.box_of_picture("balance");
  const Image pairs = stage.picture();
  const std::vector<std::string> words = {"pairs", "FLOPs", "time", "waiting"};
  stage.click(tab_box(stage.fonts(), {10, cells.y0 - 50}, words, 3).center());
  const Image waiting = stage.picture();
  const int x = static_cast<int>(cells.x0) + 4, y = static_cast<int>(cells.y0) + 4;
  EXPECT_NE(pairs.at(x, y), waiting.at(x, y));
}

TEST(Idle, PartsAddUpToTheWallTime) {
  for (auto& [name, trace] : stage_traces()) {
    const IdleReport report = idle_of(trace);
    for (const RankIdle& loss : report.ranks) {
      const auto parts = idle_parts(loss);
      EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), report.wall_ns)
          << name;
    }
  }
}

TEST(HeatMap, TheStepThatMostRanksAreAt) {
  RingMoment moment;
  EXPECT_EQ(common_step(moment), -1);
  for (const int step : {2, 1, 2, 3}) {
    moment.ranks.emplace_back();
    moment.ranks.back().step = step;
  }
  EXPECT_EQ(common_step(moment), 2);
}

}  // namespace
}  // namespace ringscope::viz
