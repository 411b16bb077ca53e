// Mouse on the timeline. Wheel zooms at the cursor; with Ctrl it changes the rows' height, with
// Shift it scrolls them. Left drag measures, right, middle or Shift drag pans. A click selects, a
// double click focuses. In the ruler a drag moves the playhead; in the map, what is in view.
#pragma once

#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {

// Each makes its part of the window sensitive and changes the session at once; `frame` is that of
// before, and should be made anew after them.
void touch_body(const TimelineFrame& frame);
void touch_ruler(const TimelineFrame& frame, const Box& ruler);
void touch_map(const TimelineFrame& frame, const Box& map);
void touch_gutter(const TimelineFrame& frame, const Box& gutter);

}  // namespace ringscope::viz
