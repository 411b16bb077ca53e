// Draws one document's timeline without controls, for panels that stack several: rank labels,
// slices, step boundaries, critical path and playhead in a given rectangle. Hovering explains a
// slice; nothing else reacts.
#pragma once

#include <imgui.h>

#include <cstddef>
#include <string>

#include "viz/model/timeline/timeline_layout.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// The room for rank labels at a strip's left. The axis' `view` covers only what is right of it.
inline constexpr float kTimelineStripGutter = 64;

// Draw a strip of Session::documents[document] in the session's axis mode. `top_left` and `size`
// are in pixels of the screen and include the gutter.
void draw_timeline_strip(const PanelContext& context, std::size_t document, const ImVec2& top_left,
                         const ImVec2& size, const TimelineView& view);

// What a strip shows besides computing and waiting.
struct StripStyle {
  bool messages = false;  // incoming messages, between the two
  bool labels = false;    // words on slices that have room
};

// Draw a strip of a document that need not belong to the session. `slot` names its picture;
// `active` tells whether the session's selection refers to it.
void draw_timeline_strip(const PanelContext& context, const Document& document, bool active,
                         const std::string& slot, const StripStyle& style, const ImVec2& top_left,
                         const ImVec2& size, const TimelineView& view);

// Draw the ruler above such strips: ticks and the playhead's flag. `top_left` and `size` include
// the gutter; 24 pixels of height are enough.
void draw_timeline_strip_ruler(const PanelContext& context, std::size_t document,
                               const ImVec2& top_left, const ImVec2& size,
                               const TimelineView& view);
void draw_timeline_strip_ruler(const PanelContext& context, const Document& document, bool active,
                               const ImVec2& top_left, const ImVec2& size,
                               const TimelineView& view);

}  // namespace ringscope::viz
