// A hand on the mouse over the timeline of a whole viewer, and an eye that knows where slices are.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "viz/panels/timeline/timeline_frame.h"
#include "viz/window/software_renderer.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {

// Counts how often each slot was given a picture.
class CountingTextures : public SoftwareTextures {
 public:
  ImTextureID update(const std::string& slot, const Image& image) override {
    ++updates[slot];
    return SoftwareTextures::update(slot, image);
  }
  std::map<std::string, int> updates;
};

class TimelineHands {
 public:
  explicit TimelineHands(Trace trace) : viewer_(session_of(std::move(trace)), textures) { rest(4); }

  Session& session() { return viewer_.session(); }
  const TimelineState& state() { return timeline_state(); }
  const Document& document() { return session().document(); }

  const ImDrawData& rest(int frames = 1) {
    for (int i = 1; i < frames; ++i) viewer_.frame(input_);
    return viewer_.frame(input_);
  }
  void move(ImVec2 to) {
    input_.mouse_x = to.x;
    input_.mouse_y = to.y;
    rest();
  }
  void click(ImVec2 at) {
    move(at);
    input_.left = true;
    rest();
    input_.left = false;
    rest();
    input_.seconds = 1;  // no double click with what follows
    rest();
    input_.seconds = 1.0f / 60;
  }
  void double_click(ImVec2 at) {
    move(at);
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
    move(from);
    input_.shift = shift;
    down = true;
    rest();
    move({(from.x + to.x) / 2, (from.y + to.y) / 2});
    move(to);
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
    input_.wheel = 0;
    input_.shift = input_.ctrl = false;
    rest();
  }
  void resize(int width, int height) {
    input_.width = width;
    input_.height = height;
    rest(4);
  }

  float x_of(double position) {
    return state().body.x0 + state().layout.x_of(session().view, position);
  }
  double position_of(float x) {
    return state().layout.position_at(session().view, x - state().body.x0);
  }
  // The middle of a row on the screen.
  float y_of(std::uint32_t row) {
    const RowPlace* place = state().layout.place_of(row);
    return state().body.y0 + place->y + place->height / 2 -
           static_cast<float>(session().view.scroll_y);
  }
  ImVec2 middle_of(SliceId id) {
    const Slice& slice = document().trace.slice(id);
    const int rank = static_cast<int>(document().trace.rank_of_row(id.row));
    const auto at = [&](std::int64_t ns) {
      return x_of(document().axis.position(session().axis_mode, rank, ns));
    };
    return {(at(slice.begin_ns) + at(slice.end_ns)) / 2, y_of(id.row)};
  }
  std::vector<SliceId> slices() {
    std::vector<SliceId> all;
    const Trace& trace = document().trace;
    for (std::uint32_t row = 0; row < trace.rows.size(); ++row)
      for (std::uint32_t i = 0; i < trace.rows[row].slices.size(); ++i) all.push_back({row, i});
    return all;
  }
  double pixel() { return session().view.width() / state().body.width(); }

  CountingTextures textures;

 private:
  static Session session_of(Trace trace) {
    std::vector<Document> documents;
    documents.push_back(make_document(std::move(trace)));
    return Session(std::move(documents));
  }

  Viewer viewer_;
  FrameInput input_;
};

}  // namespace ringscope::viz
