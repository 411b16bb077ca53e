// Handles the mouse on the timeline. The wheel zooms at the cursor, with Ctrl it changes the height
// of rows, and with Shift it scrolls them. A left drag measures; a right, middle or Shift drag
// pans. A click selects, a double click focuses. A drag in the ruler moves the playhead, in the map
// the view.
#pragma once

#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {

// Each function makes its part of the window sensitive and changes the session at once. `frame` is
// the one from before the change, so make a new one afterwards.
void touch_body(const TimelineFrame& frame);
void touch_ruler(const TimelineFrame& frame, const Box& ruler);
void touch_map(const TimelineFrame& frame, const Box& map);
void touch_gutter(const TimelineFrame& frame, const Box& gutter);

}  // namespace ringscope::viz
