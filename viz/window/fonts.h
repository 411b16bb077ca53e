// Sets up Dear ImGui, and the look of the viewer: its typeface and the style of its widgets.
#pragma once

#include <imgui.h>

#include <string>
#include <string_view>

#include "viz/data/timeline/palette.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// ---
// The typeface is compiled into the program, so a picture does not depend on the machine that draws
// it. ImGui's own typeface replaces it if the build did not find it.

// Return the typeface's name. Pictures are comparable only between equal names.
std::string_view font_name();

// Return the file that holds it, or its heavier form; empty without it.
std::string_view font_file(bool strong);

// Return CSS that holds the typeface, for a picture that looks the same wherever it is shown; "" without
// it.
std::string font_faces();

// What ImGui calls the heavier fonts.
inline constexpr const char* kStrongFont = "strong";

// ---
// An ImGui context that reads and writes no files, with our fonts as texture "fonts" of `textures`.

class ImGuiSession {
 public:
  // `scale` is the number of screen pixels per pixel of ImGui's.
  ImGuiSession(TextureStore& textures, float scale);
  ~ImGuiSession() { ImGui::DestroyContext(context_); }
  ImGuiSession(const ImGuiSession&) = delete;
  ImGuiSession& operator=(const ImGuiSession&) = delete;

  const Fonts& fonts() const { return fonts_; }
  void make_current() const { ImGui::SetCurrentContext(context_); }

 private:
  ImGuiContext* context_;
  Fonts fonts_;
};

// Begin a window over all of the display, without frame and padding. End it by ImGui::End().
void begin_root_window();

// ---
// The look of widgets: colours of the palette, round corners, padding.

void apply_style(ImGuiStyle& style, const Palette& palette, Theme theme);

}  // namespace ringscope::viz
