// One document's timeline without its controls, for panels that stack several: rank labels, slices,
// step boundaries, critical path and playhead in a given rectangle. Hovering explains a slice;
// nothing else reacts.
#pragma once

#include <imgui.h>

#include <cstddef>
#include <string>

#include "viz/model/timeline/timeline_layout.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// Room for rank labels at a strip's left. The axis' `view` covers what is right of it.
inline constexpr float kTimelineStripGutter = 64;

// Pixels on the screen; `top_left` and `size` include the gutter. `document` indexes
// Session::documents; the axis mode is the session's.
void draw_timeline_strip(const PanelContext& context, std::size_t document, const ImVec2& top_left,
                         const ImVec2& size, const TimelineView& view);

// What a strip shows besides computing and waiting.
struct StripStyle {
  bool messages = false;  // what comes in, between the two
  bool labels = false;    // words on slices, where there is room
};

// The same of a document that need not be one of the session's. `slot` names its picture; `active`:
// the session's selection means it.
void draw_timeline_strip(const PanelContext& context, const Document& document, bool active,
                         const std::string& slot, const StripStyle& style, const ImVec2& top_left,
                         const ImVec2& size, const TimelineView& view);

// The ruler that belongs above such strips: ticks and the playhead's flag. `top_left` and `size`
// include the gutter; 24 pixels high is enough.
void draw_timeline_strip_ruler(const PanelContext& context, std::size_t document,
                               const ImVec2& top_left, const ImVec2& size,
                               const TimelineView& view);
void draw_timeline_strip_ruler(const PanelContext& context, const Document& document, bool active,
                               const ImVec2& top_left, const ImVec2& size,
                               const TimelineView& view);

}  // namespace ringscope::viz
