// A person at the whole viewer without a window: keys, mouse and wheel go in, one frame at a time,
// and an eye knows where in the timeline slices are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/viz/panel_stage.h"
#include "viz/panels/timeline/timeline_frame.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {

// ring_trace with microseconds instead of nanoseconds, so that there is room for zooming.
inline constexpr std::int64_t kUnit = 1000;
inline Trace slow_ring_trace() {
  Trace trace = ring_trace(4);
  for (std::vector<TraceEvent>& slices : trace.events)
    for (TraceEvent& slice : slices) {
      slice.begin_ns *= kUnit;
      slice.end_ns *= kUnit;
    }
  trace.end_ns *= kUnit;
  return trace;
}

// Whether a window of that name was drawn in the last frame.
inline bool drawn(const std::string& window) {
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int i = 0; i < data.CmdListsCount; ++i)
    if (data.CmdLists[i]->_OwnerName == window) return true;
  return false;
}

// Where the last frame shows a text that begins so, in its first letter.
inline ImVec2 place_of_text(const std::string& begin) {
  const std::string svg = svg_of(*ImGui::GetDrawData(), 1, 1);
  const std::size_t text = svg.find(">" + begin);
  const std::size_t tag = svg.rfind("<text x=\"", text);
  if (text == svg.npos || tag == svg.npos) {
    ADD_FAILURE() << begin << " is not shown";
    return {-1, -1};
  }
  const std::size_t y = svg.find(" y=\"", tag);
  return {std::stof(svg.substr(tag + 9)) + 4, std::stof(svg.substr(y + 4)) - 4};
}

class Person {
 public:
  explicit Person(Session session, int width = 1600, int height = 900) {
    viewer.open(std::move(session));
    input_.width = width;
    input_.height = height;
    rest(4);
  }

  // Before the start screen.
  Person(std::vector<std::vector<std::string>> recent, std::vector<Example> examples) {
    viewer.show_start(std::move(recent), std::move(examples));
    resize(1280, 720);
    settle();
  }

  Session& session() { return viewer.session(); }
  const Document& document() { return session().document(); }
  static const TimelineState& timeline() { return timeline_state(); }

  const ImDrawData& rest(int frames = 1) {
    const ImDrawData* data = nullptr;
    for (int i = 0; i < frames; ++i) {
      data = &viewer.frame(input_);
      input_.wheel = 0;
      input_.keys.clear();
    }
    return *data;
  }
  // Everything typed in one frame, as by a fast typist or a slow computer.
  void type(std::string_view text) {
    for (const char c : text) input_.keys.push_back({.character = static_cast<char32_t>(c)});
    settle();
  }
  void press(const Key& key) {
    input_.keys.push_back(key);
    settle();
  }
  // The first frame comes `seconds` after the last one.
  void press(const Key& key, float seconds) {
    input_.keys.push_back(key);
    pass(seconds);
  }
  void press(SpecialKey key, bool shift = false) { press(Key{.special = key, .shift = shift}); }
  void resize(int width, int height) {
    input_.width = width;
    input_.height = height;
    rest(4);
  }
  void point(ImVec2 at) {
    input_.mouse_x = at.x;
    input_.mouse_y = at.y;
    rest(2);
  }
  void click(ImVec2 at) {
    point(at);
    input_.left = true;
    rest();
    input_.left = false;
    rest(2);
  }
  // A click on a text that begins so.
  void click_on(const std::string& text) {
    click(place_of_text(text));
    settle();
  }
  bool sees(const std::string& text) {
    return svg_of(*ImGui::GetDrawData(), 1, 1).find(text) != std::string::npos;
  }
  void right_click(ImVec2 at) {
    point(at);
    for (const bool down : {true, false}) {
      input_.right = down;
      rest();
    }
  }
  void double_click(ImVec2 at) {
    point(at);
    for (const bool down : {true, false, true, false}) {
      input_.left = down;
      rest();
    }
  }
  enum class Button { left, right, middle };
  void drag(ImVec2 from, ImVec2 to, Button button = Button::left, bool shift = false) {
    bool& down = button == Button::left    ? input_.left
                 : button == Button::right ? input_.right
                                           : input_.middle;
    point(from);
    input_.shift = shift;
    down = true;
    rest();
    point({(from.x + to.x) / 2, (from.y + to.y) / 2});
    point(to);
    down = false;
    rest();
    input_.shift = false;
    rest();
  }
  void wheel(float notches, bool shift = false, bool ctrl = false) {
    input_.wheel = notches;
    input_.shift = shift;
    input_.ctrl = ctrl;
    rest();
    input_.shift = input_.ctrl = false;
    rest();
  }
  void pass(float seconds) {
    input_.seconds = seconds;
    rest();
    input_.seconds = 1.0f / 60;
  }
  Image picture() { return picture_of(viewer, input_, input_.width, input_.height); }

  // Places in the timeline, on the screen.
  float x_of(double position) {
    return timeline().body.x0 + timeline().layout.x_of(session().view, position);
  }
  double position_of(float x) {
    return timeline().layout.position_at(session().view, x - timeline().body.x0);
  }
  float y_of(std::uint32_t row) {
    const RowPlace* place = timeline().layout.place_of(row);
    return timeline().body.y0 + place->y + place->height / 2 -
           static_cast<float>(session().view.scroll_y);
  }
  ImVec2 place_of(int rank, Lane lane, std::int64_t ns) {
    return {x_of(document().axis.position(session().axis_mode, rank, ns)),
            y_of(document().trace.row_of(rank, lane))};
  }
  ImVec2 middle_of(SliceId id) {
    const TraceEvent& slice = document().trace.slice(id);
    const int rank = document().trace.rank_of_row(id.row);
    const auto at = [&](std::int64_t ns) {
      return x_of(document().axis.position(session().axis_mode, rank, ns));
    };
    return {(at(slice.begin_ns) + at(slice.end_ns)) / 2, y_of(id.row)};
  }
  ImVec2 middle_of(int rank, Lane lane, std::uint32_t index) {
    return middle_of({document().trace.row_of(rank, lane), index});
  }
  std::vector<SliceId> slices() {
    std::vector<SliceId> all;
    const Trace& trace = document().trace;
    for (std::uint32_t row = 0; row < trace.rows.size(); ++row)
      for (std::uint32_t i = 0; i < trace.slices(row).size(); ++i) all.push_back({row, i});
    return all;
  }
  double pixel() { return session().view.width() / timeline().body.width(); }

 private:
  // Until all keys have found their way.
  void settle() {
    rest();
    const auto plays = [this] { return viewer.is_open() && session().playback.playing(); };
    for (int i = 0; i < 60 && !plays() && viewer.animating(); ++i) rest();
  }

  FrameInput input_;

 public:
  Viewer viewer;
};

}  // namespace ringscope::viz
