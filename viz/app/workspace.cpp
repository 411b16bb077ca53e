#include "viz/app/workspace.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {
namespace {

constexpr float kGap = 6, kBar = 46, kDetails = 30;
constexpr float kLeastPanel = 90;  // pixels, in either direction
constexpr ImGuiWindowFlags kStill =
    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse;

// A panel with its frame at a place in the window.
template <class Draw>
void panel(const char* name, ImVec2 at, ImVec2 size, ImGuiWindowFlags flags, ImVec2 padding,
           Draw draw) {
  if (size.x < 8 || size.y < 8) return;
  ImGui::SetCursorPos(at);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, padding);
  const bool visible =
      ImGui::BeginChild(name, size, true, flags | ImGuiWindowFlags_AlwaysUseWindowPadding);
  ImGui::PopStyleVar();
  if (visible) draw();
  ImGui::EndChild();
}

// The bar between two panels; dragging it changes `share` of `room` pixels.
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
  ImGui::GetWindowDrawList()->AddRectFilled(
      from, to, ImGui::GetColorU32(active ? ImGuiCol_SeparatorActive : ImGuiCol_SeparatorHovered),
      3);
}

void draw_figures(const PanelContext& context) {
  if (!ImGui::BeginTabBar("figures")) return;
  if (ImGui::BeginTabItem("Balance")) {
    ImGui::BeginChild("balance");
    draw_balance(context);
    ImGui::EndChild();
    ImGui::EndTabItem();
  }
  if (ImGui::BeginTabItem("Softmax")) {
    ImGui::BeginChild("softmax");
    draw_softmax(context);
    ImGui::EndChild();
    ImGui::EndTabItem();
  }
  ImGui::EndTabBar();
}

// One recording: the timeline across, and below it what only recordings of ours have.
void draw_single(const PanelContext& context, ImVec2 at, ImVec2 size, Splits& splits) {
  const auto timeline = [&] { draw_timeline(context); };
  if (!context.session.document().trace.is_ring()) {
    panel("timeline", at, size, kStill, {0, 0}, timeline);
    return;
  }
  const float least = std::min(kLeastPanel, size.y / 3);
  const float share_y = least / size.y;
  splits.timeline = std::clamp(splits.timeline, share_y, 1 - share_y);
  const float upper = std::floor(size.y * splits.timeline);
  const float lower_y = at.y + upper + kGap, lower = size.y - upper - kGap;
  panel("timeline", at, {size.x, upper}, kStill, {0, 0}, timeline);
  splitter("timeline | ring", {at.x, at.y + upper}, {size.x, kGap}, false, size.y, splits.timeline);

  const float share_x = std::min(kLeastPanel, size.x / 5) / size.x;
  splits.ring = std::clamp(splits.ring, share_x, 1 - 2 * share_x);
  splits.mask = std::clamp(splits.mask, share_x, 1 - splits.ring - share_x);
  const float ring = std::floor(size.x * splits.ring), mask = std::floor(size.x * splits.mask);
  const float mask_x = at.x + ring + kGap, figures_x = mask_x + mask + kGap;
  panel("ring", {at.x, lower_y}, {ring, lower}, kStill, {10, 8}, [&] { draw_ring(context); });
  splitter("ring | mask", {at.x + ring, lower_y}, {kGap, lower}, true, size.x, splits.ring);
  panel("mask", {mask_x, lower_y}, {mask, lower}, kStill, {10, 8}, [&] { draw_mask(context); });
  splitter("mask | figures", {mask_x + mask, lower_y}, {kGap, lower}, true, size.x, splits.mask);
  panel("figures", {figures_x, lower_y}, {at.x + size.x - figures_x, lower}, kStill, {10, 8},
        [&] { draw_figures(context); });
}

}  // namespace

void draw_workspace(const PanelContext& context, Splits& splits) {
  const ImVec2 room = ImGui::GetWindowSize();
  const float x = kGap, width = room.x - 2 * kGap;
  const float playback_y = room.y - kGap - kBar;
  panel("toolbar", {x, kGap}, {width, kBar}, kStill, {10, 8}, [&] { draw_toolbar(context); });
  panel("playback", {x, playback_y}, {width, kBar}, kStill, {10, 8},
        [&] { draw_playback(context); });
  const float top = kGap + kBar + kGap;
  if (context.session.comparing) {
    panel("compare", {x, top}, {width, playback_y - kGap - top}, 0, {10, 8},
          [&] { draw_compare(context); });
    return;
  }
  const float details_y = playback_y - kGap - kDetails;
  panel("details", {x, details_y}, {width, kDetails}, kStill, {10, 6},
        [&] { draw_details(context); });
  draw_single(context, {x, top}, {width, details_y - kGap - top}, splits);
}

}  // namespace ringscope::viz
