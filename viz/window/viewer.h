// Draws one frame of the viewer, from input to draw lists.
#pragma once

#include <imgui.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/model/session/session.h"
#include "viz/model/trace/trace_loader.h"
#include "viz/panels/panels.h"
#include "viz/window/fonts.h"
#include "viz/window/view.h"

namespace ringscope::viz {

// ---
// Arranges the panels in the window: toolbar on top, the timeline below it, then ring, mask and
// figures, and details and playback at the bottom. A story takes the left of everything between
// toolbar and details. Draggable bars separate the panels.

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

// ---
// One frame of the viewer from input to draw lists, without a window. The window, the screenshot
// and the tests all drive it. It owns the ImGui context, so only one may exist per process.

// What happened since the last frame. Keys come as a list, so that a tap shorter than a frame is
// not lost.
struct FrameInput {
  int width = 1600, height = 900;
  float seconds = 1.0f / 60;
  float mouse_x = -1, mouse_y = -1;  // negative: outside the window
  bool left = false, right = false, middle = false, shift = false, ctrl = false;
  float wheel = 0, wheel_x = 0;
  std::vector<Key> keys;  // in order
};

// ---
// What happens to a window, passed on to frames. No event is lost, however short: a click whose press
// and release arrive together is spread over two frames.

struct InputEvent {
  enum Kind { move, button, scroll, key } kind = move;
  float x = 0, y = 0;  // move: the position; scroll: the amount
  int button_number = 0;
  bool pressed = false;
  Key key_pressed{};
};

class InputQueue {
 public:
  void push(const InputEvent& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }

  // Take the events that fit into the next frame. It stops before a movement or a second button
  // event once it has taken a button event, and in a drag before a button event once it has taken a
  // movement. The caller sets size, time and modifiers.
  FrameInput take();

 private:
  std::deque<InputEvent> events_;
  FrameInput held_;  // what lasts from frame to frame: mouse position and buttons
};

// The start screen. Each frame records one example more, until all are there.
struct Start {
  std::vector<std::string> recent;
  std::vector<Example> examples;
  std::vector<Session> sessions;      // of the first examples
  std::string chosen;                 // a recent recording
  std::optional<std::size_t> opened;  // an example
  bool complete() const { return sessions.size() == examples.size(); }
};

class Viewer {
 public:
  // Begin with nothing open. `scale` is the number of screen pixels per pixel of FrameInput.
  explicit Viewer(float scale = 1);
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  // Build a frame. The draw data is valid until the next call.
  const ImDrawData& frame(const FrameInput& input);

  void open(Session session);
  bool is_open() const { return session_.has_value(); }
  // Call session() only when open.
  Session& session() { return *session_; }
  const Session& session() const { return *session_; }

  // Show the progress of loading instead of the session until called with null.
  void show_loading(const LoadProgress* progress) { loading_ = progress; }
  // Return whether the next frame would differ without new input because of playing or fading.
  bool animating() const;
  bool settling() const { return settling_ > 0 || (starting() && !start_->complete()); }
  // Show where to begin: recent recordings and examples. A click chooses a recent one, and opens an
  // example.
  void show_start(std::vector<std::string> recent, std::vector<Example> examples) {
    start_ = {std::move(recent), std::move(examples), {}, "", {}};
  }
  bool starting() const { return start_.has_value() && !session_; }
  // Return the recording that was chosen, once; else "".
  std::string take_chosen() { return start_ ? std::exchange(start_->chosen, "") : ""; }
  // Show a message over everything, with a button that closes it.
  void show_error(std::string text) { error_ = std::move(text); }
  bool showing_error() const { return !error_.empty(); }
  // Show a message that fades by itself.
  void show_notice(std::string text);

  Splits splits;
  Theme theme = Theme::dark;  // while nothing is open
  TextureStore textures;

 private:
  void feed(const FrameInput& input);
  void feed_keys(const FrameInput& input);
  bool feed_text(const Key& key);
  void go_on_starting();
  void draw_root(const FrameInput& input, bool was_playing);

  std::optional<Session> session_;
  std::optional<ImGuiSession> imgui_;
  const LoadProgress* loading_ = nullptr;
  std::optional<Start> start_;
  std::string error_;
  std::string notice_;
  float notice_seconds_ = 0;
  // Keys that no frame has taken yet. A text field takes only one key per frame.
  std::deque<Key> typed_;
  bool text_key_down_ = false;  // in the last frame
  int text_frames_ = 0;         // until the text field knows whether it is active
  int settling_ = 0;            // frames until sizes that depend on contents are right
};

// Draw a few frames, until every size that depends on contents is known, and return the next.
const ImDrawData& settled_frame(Viewer& viewer, const FrameInput& input);
// Return it as `width` x `height` pixels.
Image picture_of(Viewer& viewer, const FrameInput& input, int width, int height);

}  // namespace ringscope::viz
