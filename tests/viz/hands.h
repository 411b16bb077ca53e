// A person at the whole viewer without a window: keys, mouse and wheel go in, one frame at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/viz/panel_stage.h"
#include "viz/window/software_renderer.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {

inline Session session_of(std::vector<Trace> traces) {
  std::vector<Document> documents;
  for (Trace& trace : traces) documents.push_back(make_document(std::move(trace)));
  return Session(std::move(documents));
}

// ring_trace with microseconds instead of nanoseconds, so that there is room for zooming.
inline constexpr std::int64_t kUnit = 1000;
inline Trace slow_ring_trace() {
  Trace trace = ring_trace(4);
  for (Row& row : trace.rows)
    for (Slice& slice : row.slices) {
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

class Person {
 public:
  explicit Person(Session session, int width = 1600, int height = 900)
      : viewer(std::move(session), textures_) {
    input_.width = width;
    input_.height = height;
    rest(4);
  }

  Session& session() { return viewer.session(); }

  void rest(int frames = 1) {
    for (int i = 0; i < frames; ++i) {
      viewer.frame(input_);
      input_.wheel = 0;
      input_.keys.clear();
      input_.characters.clear();
    }
  }
  // Everything typed in one frame, as by a fast typist or a slow computer.
  void type(std::string_view text) {
    for (const char c : text) {
      input_.keys.push_back({.character = static_cast<char32_t>(c)});
      input_.characters += static_cast<char32_t>(c);
    }
    settle();
  }
  void press(const Key& key) {
    input_.keys.push_back(key);
    settle();
  }
  void press(SpecialKey key, bool shift = false) { press(Key{.special = key, .shift = shift}); }
  void resize(int width, int height) {
    input_.width = width;
    input_.height = height;
    rest(2);
  }
  void point(float x, float y) {
    input_.mouse_x = x;
    input_.mouse_y = y;
    rest(2);
  }
  void click(float x, float y) {
    point(x, y);
    input_.left = true;
    rest();
    input_.left = false;
    rest(2);
  }
  void drag(float x0, float y0, float x1, float y1, bool right = false) {
    bool& button = right ? input_.right : input_.left;
    point(x0, y0);
    button = true;
    rest();
    point((x0 + x1) / 2, (y0 + y1) / 2);
    point(x1, y1);
    button = false;
    rest(2);
  }
  void wheel(float x, float y, float notches) {
    point(x, y);
    input_.wheel = notches;
    rest(2);
  }
  void pass(float seconds) {
    input_.seconds = seconds;
    rest();
    input_.seconds = 1.0f / 60;
  }
  Image picture() { return picture_of(viewer, input_, input_.width, input_.height); }

 private:
  // Until all keys have found their way.
  void settle() {
    rest();
    for (int i = 0; i < 60 && !session().playback.playing() && viewer.animating(); ++i) rest();
  }

  SoftwareTextures textures_;
  FrameInput input_;

 public:
  Viewer viewer;
};

}  // namespace ringscope::viz
