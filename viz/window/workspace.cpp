#include "viz/window/viewer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "viz/panels/drawing.h"
#include "viz/panels/imgui_versions.h"

namespace ringscope::viz {
namespace {

constexpr float kSplitterGap = 6, kToolbarHeight = 46, kDetails = 30;
constexpr float kLeastPanel = 90;                     // pixels, in both directions
constexpr float kLeastStory = 220, kMostStory = 520;  // pixels; widths at which lines read well
constexpr float kNarrow = 560;  // pixels; a window less wide than this and than high stacks panels
constexpr ImGuiWindowFlags kStill =
    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse;

// Draw a panel with its frame at a place in the window. A `lit` panel has a stronger frame.
template <class Draw>
void panel(const char* name, ImVec2 at, ImVec2 size, ImGuiWindowFlags flags, ImVec2 padding,
           Draw draw, bool lit = false) {
  if (size.x < 8 || size.y < 8) return;
  ImGui::SetCursorPos(at);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, padding);
  ImGui::PushStyleVar(ImGuiStyleVar_ChildBorderSize, lit ? 2.0f : 1.0f);
  if (lit) ImGui::PushStyleColor(ImGuiCol_Border, ImGui::GetColorU32(ImGuiCol_CheckMark));
  const bool visible = begin_padded_child(name, size, true, flags);
  if (lit) ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
  if (visible) draw();
  ImGui::EndChild();
}

// Draw the bar between two panels. Dragging it changes `share` of `room` pixels.
void splitter(const char* name, ImVec2 at, ImVec2 size, bool vertical, float room, float& share) {
  if (size.x < 1 || size.y < 1 || room < 1) return;
  ImGui::SetCursorPos(at);
  ImGui::InvisibleButton(name, size);
  const bool active = ImGui::IsItemActive();
  if (active) {
    const ImVec2 delta = ImGui::GetIO().MouseDelta;
    share += (vertical ? delta.x : delta.y) / room;
  }
  if (!active && !ImGui::IsItemHovered()) return;
  ImGui::SetMouseCursor(vertical ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  draw_list().AddRectFilled(
      from, to, ImGui::GetColorU32(active ? ImGuiCol_SeparatorActive : ImGuiCol_SeparatorHovered),
      3);
}

// Return whether the mouse is in the panel drawn last, or in its contents.
bool under_mouse() {
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  return ImGui::IsMouseHoveringRect(from, to, false) &&
         ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows);
}

// Return whether the story points at `figure`.
bool told_to_look(const Session& session, Figure figure) {
  const StoryStep* told = session.pointed_at();
  return told != nullptr && told->figure == figure;
}

// The panels of one window's place, of which the open tab's is drawn.
struct FigureTab {
  Figure figure;
  const char *title, *child;
  void (*draw)(const PanelContext&);
};
constexpr FigureTab kFigureTabs[] = {{Figure::ring, "Ring", "ring", draw_ring},
                                     {Figure::mask, "Mask", "mask", draw_mask},
                                     {Figure::balance, "Balance", "balance", draw_balance},
                                     {Figure::softmax, "Softmax", "softmax", draw_softmax},
                                     {Figure::links, "Links", "links", draw_links},
                                     {Figure::tile, "Tile", "tile", draw_tile}};

// Draw the tabs and the figure of the open one, and return which it is. Where panels are stacked, all
// but the timeline have tabs, else all from Balance on.
Figure draw_figures(const PanelContext& context, bool stacked) {
  Figure shown = Figure::balance;
  const auto wanted = std::exchange(context.session.panels.front, std::nullopt);
  if (!ImGui::BeginTabBar("figures")) return shown;
  for (const FigureTab& tab : kFigureTabs) {
    if (!stacked && tab.figure < Figure::balance) continue;
    const bool chosen = wanted == tab.figure;
    if (!ImGui::BeginTabItem(tab.title, nullptr,
                             chosen ? ImGuiTabItemFlags_SetSelected : ImGuiTabItemFlags_None))
      continue;
    shown = tab.figure;
    ImGui::BeginChild(tab.child);
    tab.draw(context);
    ImGui::EndChild();
    ImGui::EndTabItem();
  }
  ImGui::EndTabBar();
  return shown;
}

// Draw the panel that shows `figure`.
void draw_panel(const PanelContext& context, Figure figure, ImVec2 at, ImVec2 size,
                bool stacked = false) {
  Session& session = context.session;
  bool lit = told_to_look(session, figure);
  const auto show = [&](const char* name, ImVec2 padding, void (*draw)(const PanelContext&)) {
    panel(
        name, at, size, kStill, padding, [&] { draw(context); }, lit);
  };
  switch (figure) {
    case Figure::timeline:
      if (session.rank_map.shown)
        show("ranks", {10, 8}, draw_rank_map);
      else
        show("timeline", session.panels.print ? ImVec2(4, 4) : ImVec2(0, 0), draw_timeline);
      break;
    case Figure::ring:
      show("ring", {10, 8}, draw_ring);
      break;
    case Figure::mask:
      show("mask", {10, 8}, draw_mask);
      break;
    default:  // the others share one panel, and a bare one has no tabs
      lit = std::any_of(std::begin(kFigureTabs), std::end(kFigureTabs), [&](const FigureTab& tab) {
        return tab.figure >= Figure::balance && told_to_look(session, tab.figure);
      });
      if (session.panels.bare && session.panels.alone == figure)
        for (const FigureTab& tab : kFigureTabs)
          if (tab.figure == figure) return show("figures", {10, 8}, tab.draw);
      panel(
          "figures", at, size, kStill, {10, 8}, [&] { figure = draw_figures(context, stacked); },
          lit);
  }
  if (under_mouse()) session.panels.under_mouse = figure;
}

// Draw one recording: the timeline, and below it the panels that only our own recordings have.
void draw_single(const PanelContext& context, ImVec2 at, ImVec2 size, Splits& splits,
                 bool stacked) {
  context.session.panels.under_mouse.reset();
  if (!context.session.document().trace.is_ring)
    return draw_panel(context, Figure::timeline, at, size);
  constexpr float kRoomForAll = 200;  // below it no panel would have room for anything
  const std::optional<Figure>& alone = context.session.panels.alone;
  if (alone || size.y < kRoomForAll)
    return draw_panel(context, alone.value_or(Figure::timeline), at, size);
  const float least = std::min(kLeastPanel, size.y / 3);
  const float share_y = least / size.y;
  splits.timeline = std::clamp(splits.timeline, share_y, 1 - share_y);
  const float upper = std::floor(size.y * splits.timeline);
  const float lower_y = at.y + upper + kSplitterGap, lower = size.y - upper - kSplitterGap;
  draw_panel(context, Figure::timeline, at, {size.x, upper});
  splitter("timeline | ring", {at.x, at.y + upper}, {size.x, kSplitterGap}, false, size.y,
           splits.timeline);

  if (stacked) return draw_panel(context, Figure::balance, {at.x, lower_y}, {size.x, lower}, true);
  const float share_x = std::min(kLeastPanel, size.x / 5) / size.x;
  splits.ring = std::clamp(splits.ring, share_x, 1 - 2 * share_x);
  splits.mask = std::clamp(splits.mask, share_x, 1 - splits.ring - share_x);
  const float ring = std::floor(size.x * splits.ring), mask = std::floor(size.x * splits.mask);
  const float mask_x = at.x + ring + kSplitterGap, figures_x = mask_x + mask + kSplitterGap;
  draw_panel(context, Figure::ring, {at.x, lower_y}, {ring, lower});
  splitter("ring | mask", {at.x + ring, lower_y}, {kSplitterGap, lower}, true, size.x, splits.ring);
  draw_panel(context, Figure::mask, {mask_x, lower_y}, {mask, lower});
  splitter("mask | figures", {mask_x + mask, lower_y}, {kSplitterGap, lower}, true, size.x,
           splits.mask);
  draw_panel(context, Figure::balance, {figures_x, lower_y}, {at.x + size.x - figures_x, lower});
}

// Draw the story at the left, or on top. Update `at` and `size` to the room that is left.
void draw_told(const PanelContext& context, ImVec2& at, ImVec2& size, Splits& splits,
               bool stacked) {
  if (stacked) {
    const float height = std::floor(size.y / 3);
    panel("story", at, {size.x, height}, kStill, {14, 10}, [&] { draw_story(context); });
    at.y += height + kSplitterGap;
    size.y -= height + kSplitterGap;
    return;
  }
  const float least = std::min(kLeastStory, size.x / 3), most = std::min(kMostStory, size.x / 2);
  splits.story = std::clamp(splits.story, least / size.x, most / size.x);
  const float width = std::floor(size.x * splits.story);
  panel("story", at, {width, size.y}, kStill, {14, 10}, [&] { draw_story(context); });
  splitter("story | timeline", {at.x + width, at.y}, {kSplitterGap, size.y}, true, size.x,
           splits.story);
  at.x += width + kSplitterGap;
  size.x -= width + kSplitterGap;
}

}  // namespace

void draw_workspace(const PanelContext& context, Splits& splits) {
  const Session& session = context.session;
  const ImVec2 room = ImGui::GetWindowSize();
  if (session.panels.bare && session.panels.alone && !session.what_if) {
    // In print a panel has no edge.
    if (session.panels.print) ImGui::GetStyle().ChildRounding = 0;
    if (session.panels.print) ImGui::GetStyle().Colors[ImGuiCol_Border].w = 0;
    return draw_panel(context, *session.panels.alone, {0, 0}, room);
  }
  ImVec2 at{kSplitterGap, kSplitterGap};
  ImVec2 size{room.x - 2 * kSplitterGap, room.y - 2 * kSplitterGap};
  // Take the room of a bar off the middle, at its top or at its bottom.
  const auto bar = [&](const char* name, bool top, float height, ImVec2 padding,
                       void (*draw)(const PanelContext&)) {
    panel(name, {at.x, top ? at.y : at.y + size.y - height}, {size.x, height}, kStill, padding,
          [&] { draw(context); });
    size.y -= height + kSplitterGap;
    if (top) at.y += height + kSplitterGap;
  };
  if (!session.panels.bare) {
    bar("toolbar", true, kToolbarHeight, {10, 8}, draw_toolbar);
    bar("playback", false, kToolbarHeight, {10, 8}, draw_playback);
  }
  if (session.comparing)
    return panel("compare", at, size, 0, {10, 8}, [&] { draw_compare(context); });
  if (session.what_if)
    return panel("what if", at, size, kStill, {10, 8}, [&] { draw_what_if(context); });
  if (!session.panels.bare) bar("details", false, kDetails, {10, 6}, draw_details);
  if (session.document().trace.layers.size() > 1)
    bar("layers", true, kDetails, {10, 4}, draw_layers);
  if (session.document().trace.info.failure) bar("failure", true, kDetails, {10, 6}, draw_failure);
  if (size.x < 8 || size.y < 8) return;
  if (session.panels.table) {
    const float wide = std::floor(std::min(440.0f, size.x / 2));
    panel("table", {at.x + size.x - wide, at.y}, {wide, size.y}, kStill, {10, 8},
          [&] { draw_selection_table(context); });
    size.x -= wide + kSplitterGap;
  }
  const bool stacked = size.x < kNarrow && size.y > size.x;
  if (session.story_shown()) draw_told(context, at, size, splits, stacked);
  draw_single(context, at, size, splits, stacked);
}

}  // namespace ringscope::viz
