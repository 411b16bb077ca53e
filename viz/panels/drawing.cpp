#include "viz/panels/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <imgui_internal.h>

// lessons/glossary.txt, which CMake builds in.
extern const char kGlossary[];

namespace ringscope::viz {
namespace {

constexpr float kTabPad = 9, kTabGap = 2, kTabHeight = 22;

ImVec2 size_of(ImFont* font, std::string_view text) {
  return font->CalcTextSizeA(font_height(font), FLT_MAX, 0, text.data(), text.data() + text.size());
}

float line_step(ImFont* font) { return std::round(font_height(font) * 1.3f); }

// Call each(line) for each line that `text` takes at width `width`.
template <class Each>
void for_lines(ImFont* font, float width, std::string_view text, Each each) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  while (begin < end) {
    const char* stop = font->CalcWordWrapPositionA(ImGui::GetIO().FontGlobalScale, begin, end,
                                                   std::max(width, 1.0f));
    // ImGui also breaks behind points and commas. A number such as 9.00 stays whole.
    if (stop < end && *stop != ' ') {
      const char* space = stop;
      while (space > begin && *space != ' ') --space;
      if (space > begin) stop = space;
    }
    if (stop == begin) ++stop;  // not even one character fits
    each(std::string_view(begin, static_cast<std::size_t>(stop - begin)));
    begin = stop;
    while (begin < end && *begin == ' ') ++begin;
  }
}

}  // namespace

void write(ImFont* font, Color color, const std::string& text, float wrap_at) {
  ImGui::PushFont(font);
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::PushTextWrapPos(wrap_at);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
  ImGui::PopFont();
}

void number_cell(const std::string& text) {
  ImGui::TableNextColumn();
  const float free = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(free, 0.0f));
  ImGui::TextUnformatted(text.c_str());
}

void move_cursor(ImVec2 to) {
  ImGui::SetCursorScreenPos(to);
  ImVec2& most = ImGui::GetCurrentWindow()->DC.CursorMaxPos;
  most = {std::max(most.x, to.x), std::max(most.y, to.y)};
}

float font_height(const ImFont* font) {
  return size_of_glyphs(font) * ImGui::GetIO().FontGlobalScale;
}

Box content_box() {
  const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
  return {at.x, at.y, at.x + std::max(room.x, 0.0f), at.y + std::max(room.y, 0.0f)};
}

float draw_text(ImFont* font, ImVec2 anchor, ImVec2 align, Color color, std::string_view text,
                float room) {
  if (room < FLT_MAX) return draw_text(font, anchor, align, color, fitted(font, text, room));
  if (text.empty()) return 0;
  const ImVec2 size = size_of(font, text);
  // Whole pixels keep glyphs sharp.
  const ImVec2 at(std::floor(anchor.x - size.x * align.x + 0.5f),
                  std::floor(anchor.y - size.y * align.y + 0.5f));
  draw_list().AddText(font, font_height(font), at, color, text.data(), text.data() + text.size());
  return size.x;
}

float draw_label(const PanelContext& context, ImVec2 anchor, ImVec2 align, std::string_view text,
                 float room) {
  return draw_text(context.fonts.small, anchor, align, context.palette.text_dim, text, room);
}

float text_width(ImFont* font, std::string_view text) { return size_of(font, text).x; }

std::string fitted(ImFont* font, std::string_view text, float width) {
  if (text_width(font, text) <= width) return std::string(text);
  const float dots = text_width(font, "...");
  if (dots > width) return "";
  const char* rest = nullptr;
  font->CalcTextSizeA(font_height(font), width - dots, 0, text.data(), text.data() + text.size(),
                      &rest);
  return std::string(text.data(), rest) + "...";
}

float draw_wrapped(ImFont* font, ImVec2 top_left, float width, Color color, std::string_view text,
                   float lean) {
  float y = top_left.y;
  for_lines(font, width, text, [&](std::string_view line) {
    draw_text(font, {top_left.x, y}, {lean, 0}, color, line);
    y += line_step(font);
  });
  return y - top_left.y;
}

float wrapped_height(ImFont* font, float width, std::string_view text) {
  float height = 0;
  for_lines(font, width, text, [&](std::string_view) { height += line_step(font); });
  return height;
}

float draw_headline(const PanelContext& context, ImVec2 top_left, float width, Color color,
                    std::string_view text) {
  const Fonts& fonts = context.fonts;
  const bool fits = text_width(fonts.title, text) <= width;
  return draw_wrapped(fits ? fonts.title : fonts.strong, top_left, width, color, text);
}

void fill(const Box& box, Color color, float rounding) {
  draw_list().AddRectFilled(box.min(), box.max(), color, rounding);
}

void outline(const Box& box, Color color, float rounding, float thickness) {
  draw_list().AddRect(box.min(), box.max(), color, rounding, 0, thickness);
}

void arrowhead(ImVec2 tip, float dx, float dy, float size, Color color) {
  const ImVec2 back(tip.x - dx * size, tip.y - dy * size);
  const float half = size * 0.5f;
  draw_list().AddTriangleFilled(tip, {back.x - dy * half, back.y + dx * half},
                                {back.x + dy * half, back.y - dx * half}, color);
}

Color ink_on(Color ground) {
  const auto linear = [&](int shift) {
    const double encoded = (ground >> shift & 255) / 255.0;
    return encoded <= 0.04045 ? encoded / 12.92 : std::pow((encoded + 0.055) / 1.055, 2.4);
  };
  // WCAG 2's contrast with black and with white is the same at this luminance.
  constexpr double kEqual = 0.179;
  const double luminance = 0.2126 * linear(0) + 0.7152 * linear(8) + 0.0722 * linear(16);
  return luminance > kEqual ? rgb(0, 0, 0) : rgb(255, 255, 255);
}

Color heat_shade(const Palette& palette, Color strong, double share) {
  const Color ground = mix(palette.panel, palette.text, 0.05);
  return share > 0 ? mix(ground, strong, 0.10 + 0.82 * std::min(share, 1.0)) : ground;
}

Touch touch(const char* id, const Box& box) {
  const ImVec2 before = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos(box.min());
  Touch result;
  result.clicked =
      ImGui::InvisibleButton(id, {std::max(box.width(), 1.0f), std::max(box.height(), 1.0f)});
  result.hovered = ImGui::IsItemHovered();
  move_cursor(before);
  return result;
}

std::vector<Box> tab_boxes(const Fonts& fonts, ImVec2 top_left,
                           const std::vector<std::string>& words, float room) {
  std::vector<float> widths;
  for (const std::string& word : words)
    widths.push_back(text_width(fonts.small, word) + 2 * kTabPad);
  const std::vector<ImVec2> places = in_lines(widths, room, kTabGap, kTabHeight + 3);
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const float x = top_left.x + places[i].x, y = top_left.y + places[i].y;
    boxes.push_back({x, y, x + widths[i], y + kTabHeight});
  }
  return boxes;
}

int draw_tabs(const PanelContext& context, const char* id, ImVec2 top_left,
              const std::vector<std::string>& words, int chosen, float room) {
  const Palette& palette = context.palette;
  int result = chosen;
  ImGui::PushID(id);
  const std::vector<Box> boxes = tab_boxes(context.fonts, top_left, words, room);
  for (int i = 0; i < static_cast<int>(words.size()); ++i) {
    const Box& box = boxes[i];
    ImGui::PushID(i);
    const Touch touched = touch("tab", box);
    ImGui::PopID();
    if (touched.clicked) result = i;
    if (i == chosen)
      fill(box, with_alpha(palette.accent, 0.18), 5);
    else if (touched.hovered)
      fill(box, with_alpha(palette.text, 0.07), 5);
    draw_text(context.fonts.small, box.center(), {0.5f, 0.5f},
              i == chosen ? palette.text : palette.text_dim, words[i]);
  }
  ImGui::PopID();
  return result;
}

int draw_title_tabs(const PanelContext& context, const char* id, ImVec2 top_left,
                    const std::vector<std::string>& words, int chosen, float room) {
  if (!context.session.panels.bare) return draw_tabs(context, id, top_left, words, chosen, room);
  draw_text(context.fonts.strong, {top_left.x, top_left.y + 3}, {0, 0}, context.palette.text,
            words[chosen], room);
  return chosen;
}

void draw_empty(const PanelContext& context, const Box& box, std::string_view title,
                std::string_view text) {
  const float width = std::min(box.width() - 24, 360.0f);
  if (width < 40 || box.height() < 30) return;
  const float height = wrapped_height(context.fonts.small, width, text);
  const float y = box.center().y - (height + 26) / 2;
  draw_text(context.fonts.text, {box.center().x, y}, {0.5f, 0}, context.palette.text,
            fitted(context.fonts.text, title, box.width() - 16));
  draw_wrapped(context.fonts.small, {box.center().x, y + 26}, width, context.palette.text_dim, text,
               0.5f);
}

std::vector<ImVec2> in_lines(const std::vector<float>& widths, float room, float gap, float pitch) {
  std::vector<ImVec2> places;
  ImVec2 at(0, 0);
  for (const float width : widths) {
    if (at.x > 0 && at.x + width > room) at = {0, at.y + pitch};
    places.push_back(at);
    at.x += width + gap;
  }
  return places;
}

namespace {

constexpr float kLegendLine = 20, kSwatch = 10, kBeside = 16;  // the name begins beside the swatch

std::vector<ImVec2> legend_places(const Fonts& fonts, float width,
                                  const std::vector<Swatch>& swatches) {
  std::vector<float> widths;
  for (const Swatch& swatch : swatches)
    widths.push_back(kBeside + text_width(fonts.small, swatch.name));
  return in_lines(widths, width, 18, kLegendLine);
}

}  // namespace

std::vector<Swatch> owner_swatches(const Session& session) {
  const Trace& trace = session.document().trace;
  const int ranks = trace.rank_count();
  std::vector<Swatch> swatches;
  if (!trace.is_ring || session.look.color_by != ColorBy::owner || ranks > kOwnerClasses)
    return swatches;
  for (int owner = 0; owner < ranks; ++owner)
    swatches.push_back(
        {owner_color(session.look.theme, owner, ranks), fmt::format("KV {}", owner)});
  return swatches;
}

float legend_height(const Fonts& fonts, float width, const std::vector<Swatch>& swatches) {
  return swatches.empty() ? 0 : legend_places(fonts, width, swatches).back().y + kLegendLine + 6;
}

float draw_legend(const Fonts& fonts, const Palette& palette, ImVec2 at, float width,
                  const std::vector<Swatch>& swatches) {
  const std::vector<ImVec2> places = legend_places(fonts, width, swatches);
  for (std::size_t i = 0; i < swatches.size(); ++i) {
    const float x = at.x + places[i].x, y = at.y + places[i].y + kLegendLine / 2 - 2;
    const Box box{x, y - 5, x + kSwatch, y + 5};
    fill(box, swatches[i].color, 2);
    if (swatches[i].framed) outline(box, palette.panel_border, 2);
    draw_text(fonts.small, {x + kBeside, y}, {0, 0.5f}, palette.text, swatches[i].name);
  }
  return legend_height(fonts, width, swatches);
}

float draw_figures(const PanelContext& context, const std::vector<BigFigure>& figures, ImVec2 at,
                   float width, float height) {
  constexpr float kLine = 46, kHigh = 37, kChangeGap = 8;
  std::vector<float> widths;
  for (const BigFigure& figure : figures) {
    const float change = text_width(context.fonts.small, figure.change);
    widths.push_back(std::max(
        text_width(context.fonts.title, figure.value) + (change > 0 ? kChangeGap : 0) + change,
        text_width(context.fonts.small, figure.name)));
  }
  const std::vector<ImVec2> places = in_lines(widths, width, 24, kLine);
  for (std::size_t i = 0; i < places.size() && places[i].y + kHigh <= height; ++i) {
    const float x = at.x + places[i].x, y = at.y + places[i].y;
    const BigFigure& figure = figures[i];
    const float end =
        x + draw_text(context.fonts.title, {x, y}, {0, 0},
                      figure.color != 0 ? figure.color : context.palette.text, figure.value);
    draw_label(context, {end + kChangeGap, y + 6}, {0, 0}, figure.change);
    draw_label(context, {x, y + 24}, {0, 0}, figure.name, width);
    if (!figure.meaning.empty() &&
        touch(figure.name.c_str(), {x, y, x + widths[i], y + 40}).hovered)
      draw_meaning(context, figure.meaning);
  }
  return places.back().y + kLine + 4;
}

bool begin_over_all(const Palette& palette, const char* name, float width, float height) {
  constexpr float kMargin = 24;
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({display.x / 2, display.y / 2}, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::SetNextWindowSizeConstraints({width, height},
                                      {width, height > 0 ? height : display.y - 2 * kMargin});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(kMargin, 18));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, palette.panel);
  const bool drawn = ImGui::Begin(name, nullptr,
                                  ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                                      ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoNav);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  return drawn;
}

std::string meaning_of(std::string_view term) {
  const std::string_view text = kGlossary;
  const std::size_t head = text.find(fmt::format("\n\n{} | ", term));
  if (head == std::string_view::npos) return "";
  const std::size_t begin = text.find("\n  ", head + 2), end = text.find("\n\n", begin);
  std::string meaning;
  for (const char c : text.substr(begin, end - begin))
    if (c != '\n' && !(c == ' ' && (meaning.empty() || meaning.back() == ' '))) meaning += c;
  return meaning;
}

void draw_meaning(const PanelContext& context, std::string_view text) {
  constexpr float kWidth = 320;
  ImGui::BeginTooltip();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::Dummy({kWidth, rich_height(context, kWidth, text)});
  draw_rich(context, at, kWidth, true, text);
  ImGui::EndTooltip();
}

void draw_tooltip(const PanelContext& context, std::string_view title, const Pairs& rows,
                  std::string_view term) {
  constexpr float kGap = 12, kMeaning = 320;
  ImFont* const small = context.fonts.small;
  float names = 0, values = 0;
  for (const auto& [name, value] : rows) {
    names = std::max(names, text_width(small, name) + kGap);
    values = std::max(values, text_width(small, value));
  }
  ImGui::BeginTooltip();
  write(context.fonts.text, context.palette.text, std::string(title));
  for (const auto& [name, value] : rows) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    draw_label(context, at, {0, 0}, name);
    draw_text(small, {at.x + names, at.y}, {0, 0}, context.palette.text, value);
    ImGui::Dummy({names + values, line_step(small) - ImGui::GetStyle().ItemSpacing.y});
  }
  if (const std::string meaning = meaning_of(term); !meaning.empty()) {
    ImGui::Spacing();
    write(small, context.palette.text, std::string(term));
    write(small, context.palette.text_dim, meaning, kMeaning);
  }
  ImGui::EndTooltip();
}

}  // namespace ringscope::viz
