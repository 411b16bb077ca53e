// One frame of one document's timeline: where its body lies on the screen, and the parts that are
// drawn over the painted slices. The panel and the strips of a comparison are made of these.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"
#include "viz/panels/timeline/timeline_state.h"

namespace ringscope::viz {

struct TimelineFrame {
  const PanelContext& context;
  const Document& document;
  AxisMode mode = AxisMode::time;
  TimelineView view;
  TimelineLayout layout;
  Box body;  // on the screen
  ImDrawList& list;
  bool active = true;  // whether selection, hover and search of the session mean this document

  const Trace& trace() const { return document.trace; }
  int rank_of(std::uint32_t row) const { return static_cast<int>(trace().rank_of_row(row)); }
  double length() const { return document.axis.length(mode); }
  // Screen x of an axis position, and of a rank's time. Far outside the body it stays finite.
  float x_at(double position) const;
  float x_at(int rank, std::int64_t ns) const;
  double position_at(float screen_x) const;
  // A row on the screen; empty when it is scrolled away.
  std::optional<Box> row_box(std::uint32_t row) const;
  // A slice on the screen, at least a pixel wide, cut off just outside the body; none when it is
  // not in view.
  std::optional<Box> slice_box(SliceId id) const;
  // The slices of a row that touch the view: [first, second).
  std::pair<std::uint32_t, std::uint32_t> visible(std::uint32_t row) const;
  int step_of(const Slice& slice) const;  // on the step axis; -1: none
};

// `layout` is remade for the body's size; the view's scroll_y is put within bounds.
TimelineFrame make_frame(const PanelContext& context, std::size_t document, const Box& body,
                         const TimelineView& view, float row_scale);
// The same of a document that need not be one of the session's.
TimelineFrame make_frame(const PanelContext& context, const Document& document, bool active,
                         const Box& body, const TimelineView& view, float row_scale);

// "step 2", and "back 2" in the backward pass, for a step of the step axis.
std::string step_name(const Axis& axis, int step);
// A position of the axis for people: "1.25 ms", or "step 2" with how far it is.
std::string position_name(const TimelineFrame& frame, double position);
// What a slice is, in few words: "KV 2", "dKV 2 to 3", "wait for 1", or its name.
std::string slice_title(const Trace& trace, const Slice& slice);

// timeline_frame.cpp: the painted slices, kept in texture slot `slot`; and these with everything
// that lies over them.
void draw_slices(const TimelineFrame& frame, const std::string& slot);
void draw_body(const TimelineFrame& frame, const std::string& slot);

// timeline_labels.cpp
void draw_slice_labels(const TimelineFrame& frame);
void draw_gutter(const TimelineFrame& frame, const Box& gutter);
float gutter_width(const TimelineFrame& frame);

// timeline_overlay.cpp
void draw_steps(const TimelineFrame& frame);
void draw_found(const TimelineFrame& frame);
void draw_selection(const TimelineFrame& frame);
void draw_playhead(const TimelineFrame& frame);
void draw_measure(const TimelineFrame& frame);

// timeline_story.cpp: sets apart what the story talks about
void draw_pointing(const TimelineFrame& frame);

// timeline_failure.cpp: how a run that failed ended
void draw_failure_marks(const TimelineFrame& frame);

// timeline_paths.cpp: what runs between ranks
void draw_flows(const TimelineFrame& frame);
void draw_critical_path(const TimelineFrame& frame);

// timeline_ruler.cpp: ticks, marks, hits of the search, the playhead's flag; and the whole trace in
// a strip with the visible part outlined.
void draw_ruler(const TimelineFrame& frame, const Box& ruler);
void draw_map(const TimelineFrame& frame, const Box& map);

// timeline_tooltip.cpp
void draw_slice_tooltip(const TimelineFrame& frame, SliceId id);

}  // namespace ringscope::viz
