#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/viz/panel_stage.h"
#include "viz/panels/softmax/softmax_panel.h"

namespace ringscope::viz {
namespace {

SoftmaxSample sample(std::int64_t query, int rank, int step, float row_sum) {
  SoftmaxSample made;
  made.query = query;
  made.rank = rank;
  made.step = step;
  made.row_sum = row_sum;
  return made;
}

TEST(SoftmaxPanel, DrawsEverything) { draws_everything(draw_softmax); }

TEST(SoftmaxPanel, DrawsOddNumbers) {
  Trace trace = ring_trace(4);
  const float odd[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN(), 0};
  for (std::size_t i = 0; i < trace.samples.size(); ++i)
    trace.samples[i].lse = trace.samples[i].row_max = trace.samples[i].lse_error = odd[i % 4];
  trace.samples.push_back(sample(1, 99, -1, 1));  // of no rank
  Stage stage(draw_softmax, documents_of(std::move(trace)), 800, 500);
  for (const double share : {0.0, 0.5, 1.0}) {
    stage.session.seek(share * stage.session.length());
    stage.picture();
  }
}

TEST(SoftmaxRows, SortedByQueryThenStep) {
  Trace trace;
  trace.samples = {sample(9, 1, 1, 2), sample(3, 0, 0, 1), sample(9, 1, 0, 1)};
  const auto rows = softmax_rows(trace);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].query, 3);
  EXPECT_EQ(rows[1].query, 9);
  EXPECT_EQ(rows[1].rank, 1);
  ASSERT_EQ(rows[1].samples.size(), 2u);
  EXPECT_EQ(rows[1].samples[0].step, 0);
  EXPECT_EQ(rows[1].samples[1].step, 1);
  EXPECT_EQ(default_softmax_row(rows), 1);  // its state changes, the other's does not
  EXPECT_TRUE(softmax_rows(Trace()).empty());
}

TEST(SoftmaxRows, NumbersAsText) {
  EXPECT_EQ(softmax_text(-INFINITY), "-inf");
  EXPECT_EQ(softmax_text(1.5f), "1.5000");
  EXPECT_EQ(softmax_text(0), "0.0000");
  EXPECT_EQ(softmax_text(0.0001f), "1.000e-04");
  EXPECT_EQ(softmax_text(NAN), "nan");
}

// Clicks down the left side of the panel hit every line of the table, each of one step.
TEST(SoftmaxPanel, ClickOnALineGoesToItsStep) {
  Stage stage(draw_softmax, documents_of(ring_trace(4)), 800, 500);
  stage.session.set_axis_mode(AxisMode::steps);
  std::set<int> steps;
  for (float y = 40; y < 400; y += 8) {
    stage.session.select(std::nullopt);
    stage.click({60, y});
    if (!stage.session.selected) continue;
    const Slice& slice = stage.session.document().trace.slice(*stage.session.selected);
    EXPECT_EQ(stage.session.selected_rank, 3);
    EXPECT_EQ(slice.step, static_cast<int>(stage.session.playback.position()));
    steps.insert(slice.step);
  }
  EXPECT_EQ(steps, (std::set<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace ringscope::viz
