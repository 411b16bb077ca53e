// Draws one frame of the viewer, from input to draw lists.
#pragma once

#include <imgui.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tools/foreign/trace_files.h"
#include "viz/data/session/session.h"
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

// ---
// What stands where no recording is open yet: the start screen, and the list of files to open one from.

// Sliders that simulate a ring, examples, and recent recordings. Each frame records one example more,
// until all are there.
struct Start {
  Start(std::vector<std::vector<std::string>> recent_files, std::vector<Example> all_examples);

  std::vector<std::vector<std::string>> recent;  // [recording]: its files
  std::vector<Example> examples;
  std::vector<Session> sessions;  // of the first examples
  std::vector<int> places;        // of the sliders
  Session simulated;              // by them
  // What was clicked: an example, or behind the last one the simulated ring; a recent recording; the
  // button that lists files.
  std::optional<std::size_t> opened;
  std::vector<std::string> chosen;
  bool wants_file = false;

  bool complete() const { return sessions.size() == examples.size(); }
  // Record the next example, or all up to the one that was clicked. Return what is to be opened.
  std::optional<Session> go_on();
};

// Draw it into the ImGui window that the caller has begun, and note what is clicked. The session is the
// simulated one.
void draw_start(const PanelContext& context, Start& start);

// The folders and recordings of a folder.
struct FileList {
  explicit FileList(const std::string& wanted_folder);  // or the present one, if it isn't there

  std::string folder, typed;
  std::vector<std::string> names;  // folders first, which end with a slash
  bool fresh = true;               // not drawn yet
};

// Draw the list over everything. Return what is chosen, "" to close the list, or none.
std::optional<std::string> draw_files(FileList& list, const Fonts& fonts, const Palette& palette);

class Viewer {
 public:
  // Begin with nothing open. `scale` is the number of screen pixels per pixel of FrameInput.
  explicit Viewer(float scale = 1);
  // Return whether this changes anything, and what io has of functions then has to be set again.
  bool set_scale(float scale);
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
  // Show where to begin. A click opens what is simulated or an example, or chooses a recent recording.
  void show_start(std::vector<std::vector<std::string>> recent, std::vector<Example> examples) {
    start_.emplace(std::move(recent), std::move(examples));
  }
  bool starting() const { return start_.has_value() && !session_; }
  // Return the files that were chosen, once; else none.
  std::vector<std::string> take_chosen() { return std::exchange(chosen_, {}); }
  // Show a message over everything, with a button that closes it.
  void show_error(std::string text) { error_ = std::move(text); }
  bool showing_error() const { return !error_.empty(); }
  // Show a message that fades by itself.
  void show_notice(std::string text);

  Splits splits;
  Theme theme = Theme::dark;  // while nothing is open
  TextureStore textures;
  std::function<void()> ask_for_file;  // shows another list of files than the viewer's own

 private:
  void feed(const FrameInput& input);
  void feed_keys(const FrameInput& input);
  bool feed_text(const Key& key);
  void list_files();
  void draw_root(const FrameInput& input, bool was_playing);

  std::optional<Session> session_;
  std::optional<ImGuiSession> imgui_;
  float scale_ = 0;
  const LoadProgress* loading_ = nullptr;
  std::optional<Start> start_;
  std::optional<FileList> files_;
  std::vector<std::string> chosen_;
  std::string error_;
  std::string notice_;
  float notice_seconds_ = 0;
  // Keys that no frame has taken yet. A text field takes only one key per frame.
  std::deque<Key> typed_;
  bool text_key_down_ = false;  // in the last frame
  bool text_written_ = false;   // in the last frame, by characters
  int text_frames_ = 0;         // until the text field knows whether it is active
  int settling_ = 0;            // frames until sizes that depend on contents are right
};

// Draw a few frames, until every size that depends on contents is known, and return the next.
const ImDrawData& settled_frame(Viewer& viewer, const FrameInput& input);
// Return it as `width` x `height` pixels.
Image picture_of(Viewer& viewer, const FrameInput& input, int width, int height);

}  // namespace ringscope::viz
