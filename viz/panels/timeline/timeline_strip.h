// Draws one document's timeline without controls, for panels that stack several: rank labels,
// slices, step boundaries, critical path and playhead in a given rectangle. Hovering explains a
// slice; nothing else reacts.
#pragma once

#include <string>

#include "viz/model/timeline/timeline_layout.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

// The room for rank labels at a strip's left. The axis' `view` covers only what is right of it.
inline constexpr float kTimelineStripGutter = 64;

// What a strip shows besides computing and waiting.
struct StripStyle {
  bool messages = false;  // incoming messages, between the two
  bool labels = false;    // words on slices that have room
};

// Draw a strip of a document, which need not belong to the session, in the session's axis mode.
// `box` includes the gutter, and `slot` names the strip's picture.
void draw_timeline_strip(const PanelContext& context, const Document& document,
                         const std::string& slot, const StripStyle& style, const Box& box,
                         const TimelineView& view);

// Draw the ruler above such strips: ticks and the playhead's flag. `box` includes the gutter; 24
// pixels of height are enough.
void draw_timeline_strip_ruler(const PanelContext& context, const Document& document,
                               const Box& box, const TimelineView& view);

}  // namespace ringscope::viz
