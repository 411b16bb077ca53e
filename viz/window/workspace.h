// Arranges the panels in the window: toolbar on top, the timeline below it, then ring, mask and
// figures, and details and playback at the bottom. A story takes the left of everything between
// toolbar and details. Draggable bars separate the panels.
#pragma once

#include "viz/panels/panels.h"

namespace ringscope::viz {

// Shares of the available room, each in (0, 1).
struct Splits {
  float timeline = 0.42f;  // of the height between toolbar and details
  float ring = 0.27f;      // of the width
  float mask = 0.27f;      // of the width
  float story = 0.24f;     // of the width
  bool operator==(const Splits&) const = default;
};

// Draw the panels into all of the ImGui window that the caller has begun.
void draw_workspace(const PanelContext& context, Splits& splits);

}  // namespace ringscope::viz
