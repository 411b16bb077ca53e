// The timeline painted by several threads is the one painted by one.
#include <gtest/gtest.h>

#include "tests/viz_model/crowded.h"
#include "viz/model/timeline/timeline_painter.h"

namespace ringscope::viz {
namespace {

TEST(TimelineThreads, PaintWhatOneThreadPaints) {
  Trace trace = crowded(8, 100000, 7);
  ASSERT_GT(trace.slice_count, 3000000u);  // enough for as many threads as there are cores, up to 4
  const Axis axis(trace);
  const TimelineIndex index(trace);
  for (const double scroll : {0.0, 150.0})
    for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
      // A body higher than its rows, and one that cuts them off.
      for (const int height : {1200, 300}) {
        const TimelineLayout layout = make_layout(trace, 500, static_cast<float>(height), 1.5);
        TimelineView view = fitted(axis.length(mode));
        view.scroll_y = scroll;
        const TimelinePaint paint{mode, ColorBy::owner, Theme::dark, false};
        Image several(500, height, rgb(255, 0, 255)), one(500, height, rgb(0, 255, 0));
        paint_timeline(trace, axis, index, layout, view, paint, several);
        const std::size_t slices = trace.slice_count;
        trace.slice_count = 1;  // not worth a thread
        paint_timeline(trace, axis, index, layout, view, paint, one);
        trace.slice_count = slices;
        EXPECT_EQ(several.pixels, one.pixels) << height << " " << scroll;
      }
    }
}

}  // namespace
}  // namespace ringscope::viz
