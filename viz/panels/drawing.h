// The small drawing helpers that the panels share: boxes, anchored text, tabs, tooltips.
#pragma once

#include <imgui.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "viz/panels/panels.h"

namespace ringscope::viz {

// [x0, x1) x [y0, y1), in pixels of the screen.
struct Box {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;

  float width() const { return x1 - x0; }
  float height() const { return y1 - y0; }
  ImVec2 min() const { return {x0, y0}; }
  ImVec2 max() const { return {x1, y1}; }
  ImVec2 center() const { return {(x0 + x1) / 2, (y0 + y1) / 2}; }
  bool contains(ImVec2 p) const { return p.x >= x0 && p.x < x1 && p.y >= y0 && p.y < y1; }
};

// Return what is left of the current ImGui window, from its cursor to its lower right corner.
Box content_box();

// Return the height in window pixels. Fonts are larger on screens with several dots per pixel.
float font_height(const ImFont* font);
// Draw `text` so that its point `align` lies on `anchor`: {0, 0} is the text's top left, {0.5, 0.5}
// its middle. Return the text's width.
float draw_text(ImDrawList& list, const ImFont* font, ImVec2 anchor, ImVec2 align, Color color,
                std::string_view text);
float text_width(const ImFont* font, std::string_view text);
// Return `text`, cut and ended by dots if it is wider than `width`, or "" if nothing fits.
std::string fitted(const ImFont* font, std::string_view text, float width);
// Draw lines of at most `width`, broken at spaces. Return their height.
float draw_wrapped(ImDrawList& list, const ImFont* font, ImVec2 top_left, float width, Color color,
                   std::string_view text);
float wrapped_height(const ImFont* font, float width, std::string_view text);

void fill(ImDrawList& list, const Box& box, Color color, float rounding = 0);
void outline(ImDrawList& list, const Box& box, Color color, float rounding = 0,
             float thickness = 1);
// Draw a filled triangle whose point is at `tip` and faces along the unit vector (dx, dy).
void arrowhead(ImDrawList& list, ImVec2 tip, float dx, float dy, float size, Color color);

// Return black or white, whichever reads better on `ground`.
Color ink_on(Color ground);

// Make a part of the window react to clicks and hovering. Nothing is drawn.
struct Touch {
  bool clicked = false, hovered = false;
};
Touch touch(const char* id, const Box& box);

// Draw short words side by side, of which one is chosen. Return the chosen one after this frame's
// clicks; `end_x` receives the right end of the last tab.
int draw_tabs(const PanelContext& context, const char* id, ImVec2 top_left,
              const std::vector<std::string>& words, int chosen, float* end_x = nullptr);
// Return the box in which tab `index` is drawn.
Box tab_box(const Fonts& fonts, ImVec2 top_left, const std::vector<std::string>& words, int index);

// Draw a title in the middle of `box`, and below it what the reader can do.
void draw_empty(const PanelContext& context, const Box& box, std::string_view title,
                std::string_view text);

using Pairs = std::vector<std::pair<std::string, std::string>>;
// Draw names and values beside the mouse.
void draw_tooltip(const PanelContext& context, std::string_view title, const Pairs& rows);

// Return the slice in which `rank` attends at step `step` of the step axis, or none if it did not.
std::optional<SliceId> compute_slice(const Document& document, int rank, int step);

}  // namespace ringscope::viz
