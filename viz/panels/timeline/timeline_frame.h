// Declares what the timeline keeps from frame to frame, one frame of it, and what the mouse does
// there.
#pragma once

#include <imgui.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "viz/data/timeline/palette.h"
#include "viz/data/timeline/timeline_layout.h"
#include "viz/data/timeline/timeline_painter.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// ---
// The state that only the timeline keeps from frame to frame: the current gesture and the height of
// rows. It belongs to an ImGui context and is destroyed with it.

struct TimelineState {
  enum class Gesture : std::uint8_t { none, press, measure, pan } gesture = Gesture::none;
  ImVec2 pressed_at;
  TimelineView pressed_view;
  float row_scale = 1;
  double last_zoom_s = -10;         // ImGui time of the last wheel notch
  bool touched = false;             // the user knows that the mouse works here
  double playhead = 0;              // in the last frame
  std::optional<SliceId> selected;  // in the last frame
  bool hovered_is_ours = false;     // Session::hovered was set by this panel
  Box body;                         // on the screen, in the last frame
  Box ruler, map, gutter;
  TimelineLayout layout;
};

// Return the state of the current ImGui context.
TimelineState& timeline_state();

// ---
// One frame of a document's timeline: where its body lies on the screen, and the parts drawn over
// the painted slices. The timeline panel and the strips of a comparison are built from it.

struct TimelineFrame {
  const PanelContext& context;
  const Document& document;
  AxisMode mode = AxisMode::time;
  TimelineView view;
  TimelineLayout layout;
  Box body;            // on the screen
  bool active = true;  // whether the session's selection, hover and search refer to this document

  const Trace& trace() const { return document.trace; }
  // Return how many pixels of the picture lie on a point: in print as many as there are.
  float fineness() const {
    return context.session.panels.print ? ImGui::GetIO().DisplayFramebufferScale.x : 1;
  }
  int rank_of(std::uint32_t row) const { return trace().rank_of_row(row); }
  double length() const { return document.axis.length(mode); }
  // Return the screen x of an axis position or of a rank's time, finite even far off the body.
  float x_at(double position) const;
  float x_at(int rank, std::int64_t ns) const;
  double position_at(float screen_x) const;
  // Return the screen y of a height in the layout.
  float y_at(float y) const { return body.y0 + y - static_cast<float>(view.scroll_y); }
  // Return the box of a row on the screen, or none if it is scrolled away.
  std::optional<Box> row_box(std::uint32_t row) const;
  // Return the boxes of a slice on the screen that are in view, each at least a pixel wide and cut off just
  // outside the body. On the step axis a slice has one in each step that it reaches into.
  std::vector<Box> slice_boxes(SliceId id) const;
  // Return the widest of them, or none.
  std::optional<Box> slice_box(SliceId id) const;
  // Return the slices of a row that touch the view: [first, second).
  std::pair<std::uint32_t, std::uint32_t> visible(std::uint32_t row) const;
  int step_of(const TraceEvent& slice) const;  // on the step axis; -1: none
  std::optional<SliceId> slice_under_mouse() const;
};

// Make a frame of a document, which need not belong to the session. The layout is computed for the
// body's size, and the view's scroll_y is clamped.
TimelineFrame make_frame(const PanelContext& context, const Document& document, const Box& body,
                         const TimelineView& view, float row_scale);

// Draw a picture of the frame over `box`. It is painted by paint(image), and only when the document,
// the axis, the theme or anything `else_` that it depends on has changed; its texture slot is `slot`.
template <class Paint, class... Else>
void draw_picture(const TimelineFrame& frame, const std::string& slot, const Box& box,
                  Paint&& paint, const Else&... else_) {
  std::tuple key(frame.document.number, frame.mode, frame.context.session.look.theme, else_...);
  const float fine = frame.fineness();
  draw_painted(frame.context, slot, std::move(key), box, paint, {fine, fine});
}

// Name a step of the step axis: "step 2", or "back 2" in the backward pass.
std::string step_name(const Axis& axis, int step);
// Name a position of the axis: "1.25 ms", or "step 2" with how far that step is.
std::string position_name(const TimelineFrame& frame, double position);
// Return how a slice relates to its peer, or "" if slices of this kind in a recording of ours don't.
constexpr std::string_view preposition(Lane kind) {
  constexpr std::string_view names[kLaneKinds] = {"", "to", "from", "for", "", ""};
  return names[static_cast<int>(kind)];
}
// Name a slice briefly: "KV 2", "dKV 2 to 3", "wait for rank 1", or its own name.
std::string slice_title(const Trace& trace, SliceId id);

// timeline_labels.cpp
void draw_slice_labels(const TimelineFrame& frame);
void draw_gutter(const TimelineFrame& frame, const Box& gutter);
float gutter_width(const TimelineFrame& frame);
void draw_slice_tooltip(const TimelineFrame& frame, SliceId id);
// Say what a slice does ("computes on KV 2"), and list everything else about it.
std::string slice_headline(const Trace& trace, SliceId id);
Pairs slice_facts(const Trace& trace, SliceId id);

// Draw ticks and the playhead's flag in the ruler, and the whole trace in a map
// with the visible part outlined.
void draw_ruler(const TimelineFrame& frame, const Box& ruler);
void draw_map(const TimelineFrame& frame, const Box& map);

// timeline_overlay.cpp
void draw_steps(const TimelineFrame& frame);
void draw_found(const TimelineFrame& frame);
void draw_selection(const TimelineFrame& frame);
void draw_playhead(const TimelineFrame& frame);
void draw_measure(const TimelineFrame& frame);
// Highlight what the story talks about, and mark how a failed run ended.
void draw_pointing(const TimelineFrame& frame);
void draw_failure_marks(const TimelineFrame& frame);
// Return between which points the arrow of a message runs; none if an end's row is not laid out.
std::optional<std::pair<ImVec2, ImVec2>> flow_ends(const TimelineFrame& frame,
                                                   const TraceFlow& flow);
// The flag of a note.
struct NoteFlag {
  const Note* note;
  Box rows;  // of its rank, as far as they are in view, and a pixel wide at its moment
  Box box;
};
// Return the flag that stands at `foot`, and points back where it would reach beyond `end`.
NoteFlag note_flag(const Note& note, const Box& rows, float foot, float end);
// Return the flags in view, in the order of time. They stand in the ruler, or without one where the rows of
// a rank begin.
std::vector<NoteFlag> note_flags(const TimelineFrame& frame, const Box* ruler);
// Draw them with a line through each note's rank, and the texts of those under the mouse.
void draw_note_flags(const PanelContext& context, const Trace& trace,
                     const std::vector<NoteFlag>& flags);
// Draw what runs between ranks.
void draw_flows(const TimelineFrame& frame);
void draw_critical_path(const TimelineFrame& frame);

// ---
// Handles the mouse on the timeline. The wheel zooms at the cursor, with Ctrl it changes the height
// of rows, and with Shift it scrolls them. A left drag measures; a right, middle or Shift drag
// pans. A click selects, a double click focuses. A drag in the ruler moves the playhead, in the map
// the view.

// Each function makes its part of the window sensitive and changes the session at once. `frame` is
// the one from before the change, so make a new one afterwards.
void touch_body(const TimelineFrame& frame);
void touch_strips(const TimelineFrame& frame);  // zooms and pans alone
void touch_ruler(const TimelineFrame& frame, const Box& ruler);
// Call it before that of what the flags stand in.
void touch_notes(Session& session, const std::vector<NoteFlag>& flags);
void touch_map(const TimelineFrame& frame, const Box& map);
void touch_gutter(const TimelineFrame& frame, const Box& gutter);

// ---
// Draws one document's timeline without controls, for panels that stack several: rank labels,
// slices, step boundaries, critical path and playhead in a given rectangle. Hovering explains a
// slice; nothing else reacts.

// The room for rank labels at a strip's left. The axis' `view` covers only what is right of it.
inline constexpr float kTimelineStripGutter = 64;

// Draw a strip of a document, which need not belong to the session, in the session's axis mode.
// `box` includes the gutter, and `slot` names the strip's picture. With `details`, incoming messages
// stand between computing and waiting, and words on slices that have room.
void draw_timeline_strip(const PanelContext& context, const Document& document,
                         const std::string& slot, const Box& box, const TimelineView& view,
                         bool details = false);

// Draw the ruler above such strips: ticks and the playhead's flag. `box` includes the gutter; 24
// pixels of height are enough.
void draw_timeline_strip_ruler(const PanelContext& context, const Document& document,
                               const Box& box, const TimelineView& view);

// A strip with a title: what it is, in heavy letters, a name, and more in `ink`. Without a document it
// is an empty place.
struct TimelineStrip {
  const Document* document = nullptr;
  std::string slot, what, name, more;
  Color ink = 0;  // 0: that of text
};

// Draw two strips below each other on one axis, under its ruler. Where ranks are high enough, strips
// have messages and words. Return the box of each, which are empty if there is no room. With `moves`,
// wheel and drag zoom and pan the session's view, and the ruler moves the playhead.
std::array<Box, 2> draw_timelines(const PanelContext& context, const Box& box,
                                  const std::array<TimelineStrip, 2>& strips,
                                  const TimelineView& view, bool moves = false);

}  // namespace ringscope::viz
