// The small drawing helpers that the panels share: boxes, anchored text, tabs, tooltips.
#pragma once

#include <imgui.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
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
  // Return the point at these shares of its width and height.
  ImVec2 at(double x, double y) const {
    return {x0 + width() * static_cast<float>(x), y0 + height() * static_cast<float>(y)};
  }
  static Box between(ImVec2 a, ImVec2 b) { return {a.x, a.y, b.x, b.y}; }
  bool contains(ImVec2 p) const { return p.x >= x0 && p.x < x1 && p.y >= y0 && p.y < y1; }
};

// Everything is drawn into the current ImGui window.
inline ImDrawList& draw_list() { return *ImGui::GetWindowDrawList(); }

// Write `text` at ImGui's cursor, in lines that end `wrap_at` pixels from the window's left side.
void write(ImFont* font, Color color, const std::string& text, float wrap_at = -1);

// Write a number into the next cell of ImGui's table, at its right side, so that digits stand below each
// other.
void number_cell(const std::string& text);

// Move ImGui's cursor and let the window reach to it, which ImGui itself did until 1.89.
void move_cursor(ImVec2 to);

// Return what is left of the current ImGui window, from its cursor to its lower right corner.
Box content_box();

// Return the height in window pixels. Fonts are larger on screens with several dots per pixel.
float font_height(const ImFont* font);
// Draw `text` so that its point `align` lies on `anchor`: {0, 0} is the text's top left, {0.5, 0.5}
// its middle. Text wider than `room` is cut as by fitted(). Return the width drawn.
float draw_text(ImFont* font, ImVec2 anchor, ImVec2 align, Color color, std::string_view text,
                float room = FLT_MAX);
// Draw small, dim text.
float draw_label(const PanelContext& context, ImVec2 anchor, ImVec2 align, std::string_view text,
                 float room = FLT_MAX);
float text_width(ImFont* font, std::string_view text);
// Return `text`, cut and ended by dots if it is wider than `width`, or "" if nothing fits.
std::string fitted(ImFont* font, std::string_view text, float width);
// Draw lines of at most `width`, broken at spaces. Return their height. The share `lean` of a line
// stands left of top_left.x.
float draw_wrapped(ImFont* font, ImVec2 top_left, float width, Color color, std::string_view text,
                   float lean = 0);
float wrapped_height(ImFont* font, float width, std::string_view text);
// Draw a sentence in large letters if it then fits one line, else in strong ones. Return its height.
float draw_headline(const PanelContext& context, ImVec2 top_left, float width, Color color,
                    std::string_view text);

// Draw a story's paragraph, which is Markdown, in lines of at most `width`, and return
// their height. `lit` marks the text to be read now.
float draw_rich(const PanelContext& context, ImVec2 top_left, float width, bool lit,
                std::string_view text);
float rich_height(const PanelContext& context, float width, std::string_view text);

void fill(const Box& box, Color color, float rounding = 0);
void outline(const Box& box, Color color, float rounding = 0, float thickness = 1);
// Draw a filled triangle whose point is at `tip` and faces along the unit vector (dx, dy).
void arrowhead(ImVec2 tip, float dx, float dy, float size, Color color);

// Return black or white, whichever reads better on `ground`.
Color ink_on(Color ground);

// Make a part of the window react to clicks and hovering. Nothing is drawn.
struct Touch {
  bool clicked = false, hovered = false;
};
Touch touch(const char* id, const Box& box);

// Draw short words side by side, in lines of at most `room`, of which one is chosen. Return the
// chosen one after this frame's clicks.
int draw_tabs(const PanelContext& context, const char* id, ImVec2 top_left,
              const std::vector<std::string>& words, int chosen, float room = FLT_MAX);
// Draw tabs or, of a bare panel, the chosen word as its title.
int draw_title_tabs(const PanelContext& context, const char* id, ImVec2 top_left,
                    const std::vector<std::string>& words, int chosen, float room = FLT_MAX);
// Return the boxes in which the tabs are drawn.
std::vector<Box> tab_boxes(const Fonts& fonts, ImVec2 top_left,
                           const std::vector<std::string>& words, float room = FLT_MAX);

// Draw a title in the middle of `box`, and below it what the reader can do.
void draw_empty(const PanelContext& context, const Box& box, std::string_view title,
                std::string_view text);

// Begin a window of this width in the middle, over everything. Without a height it is as high as its
// contents, as far as there is room.
bool begin_over_all(const Palette& palette, const char* name, float width, float height = 0);

// Draw into a part of the window that scrolls and has no ground of its own.
template <class Draw>
void draw_child(const char* id, ImVec2 size, ImGuiWindowFlags flags, Draw&& draw) {
  ImGui::PushStyleColor(ImGuiCol_ChildBg, ImVec4(0, 0, 0, 0));
  ImGui::BeginChild(id, size, false, flags);
  draw();
  ImGui::EndChild();
  ImGui::PopStyleColor();
}

// Draw a picture over `box`, of `scale` pixels per point: by default a pixel of it lies on one of the
// screen. It is painted by paint(image), and only when `key` is another than the last time; its texture
// slot is `slot`.
template <class Key, class Paint>
void draw_painted(const PanelContext& context, const std::string& slot, Key key, const Box& box,
                  Paint&& paint, ImVec2 scale = ImGui::GetIO().DisplayFramebufferScale) {
  const auto pixels = [](float length, float of_scale) {
    return std::clamp(static_cast<int>(std::lround(length * of_scale)), 1, 4096);
  };
  draw_list().AddImage(
      context.textures.picture(slot, pixels(box.width(), scale.x), pixels(box.height(), scale.y),
                               std::move(key), paint),
      box.min(), box.max());
}

// Return the colour of a share of `strong`, in [0, 1]. Nothing is the empty ground, apart from the least
// share above it.
Color heat_shade(const Palette& palette, Color strong, double share);
// Draw a bar of the colours that stand for the values from one end to the other, from `least` to `most`.
// Return its width with the words.
template <class ColorOf>
float draw_scale(const PanelContext& context, ImVec2 at, std::string_view least,
                 std::string_view most, ColorOf&& color_of) {
  constexpr float kWide = 84, kHigh = 8;
  constexpr int kParts = 21;
  const float x = at.x + 6 + draw_label(context, {at.x, at.y + kHigh / 2}, {0, 0.5f}, least);
  for (int i = 0; i < kParts; ++i) {
    const float x0 = x + kWide * static_cast<float>(i) / kParts;
    fill({x0, at.y, x0 + kWide / kParts, at.y + kHigh}, color_of(i / (kParts - 1.0)));
  }
  const float end = x + kWide + 6;
  return end + draw_label(context, {end, at.y + kHigh / 2}, {0, 0.5f}, most) - at.x;
}

// Return what make() returns, from memory while `key` is the same: for what takes long with many
// ranks. Each caller with a `make` of its own has its own memory.
template <class Key, class Make>
const auto& kept(const Key& key, Make&& make) {
  static std::pair<Key, decltype(make())> last;
  if (last.first != key) last = {key, make()};
  return last.second;
}

// Return where things of these widths lie in lines of at most `room`, relative to the first: `gap`
// apart, and each line `pitch` below the one before.
std::vector<ImVec2> in_lines(const std::vector<float>& widths, float room, float gap, float pitch);

struct Swatch {
  Color color;
  std::string name;
  bool framed = false;  // because the colour is nearly that of the ground
};
// Return the colours of the active recording's owners, where these are drawn and have one each.
std::vector<Swatch> owner_swatches(const Session& session);

// Return how high lines of at most `width` that say what colours mean are, and draw them.
float legend_height(const Fonts& fonts, float width, const std::vector<Swatch>& swatches);
float draw_legend(const Fonts& fonts, const Palette& palette, ImVec2 at, float width,
                  const std::vector<Swatch>& swatches);

// A large value over its small name, with what has changed beside it. The meaning shows under the mouse.
struct BigFigure {
  std::string value{}, name{}, meaning{}, change{};
  Color color = 0;  // of the value; 0: that of text
};
// Draw those figures that have room, side by side in lines of at most `width`. Return their height.
float draw_figures(const PanelContext& context, const std::vector<BigFigure>& figures, ImVec2 at,
                   float width, float height = FLT_MAX);

// Return what the lessons' glossary says of `term`, as one paragraph, or "" if it does not have it.
std::string meaning_of(std::string_view term);

// Draw a sentence beside the mouse.
void draw_meaning(const PanelContext& context, std::string_view text);

using Pairs = std::vector<std::pair<std::string, std::string>>;
// Draw names and values beside the mouse, and below them what a term among them means.
void draw_tooltip(const PanelContext& context, std::string_view title, const Pairs& rows,
                  std::string_view term = "");

}  // namespace ringscope::viz
