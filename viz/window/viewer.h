// One frame of the viewer from input to draw lists, with no window behind it: what the window, the
// screenshot and the tests drive alike. Owns the ImGui context; one at a time in a process.
#pragma once

#include <imgui.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viz/model/session/session.h"
#include "viz/model/trace/trace_loader.h"
#include "viz/panels/panels.h"
#include "viz/window/workspace.h"

namespace ringscope::viz {

// What happened since the last frame. Keys come as a list, so that a tap shorter than a frame is
// not lost.
struct FrameInput {
  int width = 1600, height = 900;
  float seconds = 1.0f / 60;
  float mouse_x = -1, mouse_y = -1;  // outside: nowhere
  bool left = false, right = false, middle = false, shift = false, ctrl = false;
  float wheel = 0, wheel_x = 0;
  std::vector<Key> keys;      // pressed, in order
  std::u32string characters;  // typed, for text fields
};

class Viewer {
 public:
  // `textures` must outlive it. `scale`: pixels of the screen to one of FrameInput's.
  Viewer(Session session, TextureStore& textures, float scale = 1);
  // With nothing opened yet: the loading screen.
  explicit Viewer(TextureStore& textures, float scale = 1);
  ~Viewer();
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  // Builds a frame. The draw data is valid until the next one.
  const ImDrawData& frame(const FrameInput& input);

  void open(Session session);
  bool is_open() const { return session_.has_value(); }
  // Only when open.
  Session& session() { return *session_; }
  const Session& session() const { return *session_; }

  // Shows how far loading is, instead of what is open, until it is given null.
  void show_loading(const LoadProgress* progress) { loading_ = progress; }
  // Whether the next frame would differ without new input: playing, or something fades.
  bool animating() const;
  bool settling() const { return settling_ > 0; }
  // A message over everything, with a button that closes it.
  void show_error(std::string text) { error_ = std::move(text); }
  bool showing_error() const { return !error_.empty(); }
  // A message that fades by itself.
  void show_notice(std::string text);

  Splits splits;

 private:
  void feed(const FrameInput& input);
  void feed_keys(const FrameInput& input);
  bool feed_text(const Key& key, char32_t character);
  void draw_root(const FrameInput& input);

  std::optional<Session> session_;
  TextureStore& textures_;
  Fonts fonts_;
  const LoadProgress* loading_ = nullptr;
  std::string error_;
  std::string notice_;
  float notice_seconds_ = 0;
  // Keys that no frame has taken yet: a text field wants its keys one a frame.
  struct Typed {
    Key key;
    char32_t character = 0;  // 0: none
  };
  std::deque<Typed> typed_;
  bool text_key_down_ = false;  // in the last frame
  int text_frames_ = 0;         // until the text field has noticed that it is active, or is not
  int settling_ = 0;            // frames until sizes that depend on contents are right
  ImGuiContext* context_ = nullptr;
};

// What `viewer`, which draws with SoftwareTextures, shows: a few frames, until every size that
// depends on contents is known, and the last of them as a picture of `width` x `height` pixels.
Image picture_of(Viewer& viewer, const FrameInput& input, int width, int height);

}  // namespace ringscope::viz
