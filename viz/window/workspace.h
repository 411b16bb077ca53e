// Where the panels stand in the window: toolbar on top, the timeline across, ring, mask and figures
// below it, details and playback at the bottom, a story at the left of all that is between, and bars
// between them that can be dragged.
#pragma once

#include "viz/panels/panels.h"

namespace ringscope::viz {

// Shares of the room that there is, each in (0, 1).
struct Splits {
  float timeline = 0.42f;  // of the height between toolbar and details
  float ring = 0.27f;      // of the width
  float mask = 0.27f;      // of the width
  float story = 0.24f;     // of the width
  bool operator==(const Splits&) const = default;
};

// Fills the ImGui window that the caller has begun.
void draw_workspace(const PanelContext& context, Splits& splits);

}  // namespace ringscope::viz
