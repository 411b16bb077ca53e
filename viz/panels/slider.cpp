#include "viz/panels/slider.h"

#include <algorithm>
#include <cmath>

#include "viz/panels/drawing.h"

namespace ringscope::viz {
namespace {

constexpr float kText = 17, kBar = 17, kReach = 7;  // kReach: radius of the handle

}  // namespace

double SliderScale::share_of(double value) const {
  const double share = logarithmic ? std::log(value / least) / std::log(most / least)
                                   : (value - least) / (most - least);
  return share >= 0 ? std::min(share, 1.0) : 0;
}

double SliderScale::value_at(double share) const {
  const double value =
      logarithmic ? least * std::pow(most / least, share) : least + share * (most - least);
  return std::clamp(value, least, most);
}

SliderTouch draw_slider(const PanelContext& context, const Slider& slider) {
  const Palette& palette = context.palette;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = std::max(ImGui::GetContentRegionAvail().x, 3 * kReach);
  const bool moved = slider.mark && std::abs(*slider.mark - slider.share) > 1e-9;

  SliderTouch touch;
  ImGui::PushID(slider.name);
  ImGui::SetCursorScreenPos({at.x, at.y + kText});
  ImGui::BeginDisabled(!slider.enabled);
  ImGui::InvisibleButton("##bar", {width, kBar});
  ImGui::EndDisabled();
  const float x0 = at.x + kReach, room = width - 2 * kReach;
  const bool active = ImGui::IsItemActive(), hovered = ImGui::IsItemHovered();
  if (active) touch.share = std::clamp((ImGui::GetIO().MousePos.x - x0) / room, 0.0f, 1.0f);
  touch.reset = slider.mark && ImGui::IsItemClicked(ImGuiMouseButton_Right);
  if (hovered && !active)
    ImGui::SetTooltip("%s%s", slider.help, slider.mark ? "\nRight-click: as recorded" : "");
  ImGui::PopID();

  const Color ink = slider.enabled ? palette.text : palette.text_dim;
  draw_text(list, context.fonts.small, {at.x, at.y + kText / 2}, {0, 0.5f},
            moved ? palette.accent : palette.text_dim, slider.name);
  draw_text(list, context.fonts.small, {at.x + width, at.y + kText / 2}, {1, 0.5f},
            moved ? palette.accent : ink, slider.value);
  const float y = at.y + kText + kBar / 2;
  const auto x_of = [&](double share) {
    return x0 + room * static_cast<float>(std::clamp(share, 0.0, 1.0));
  };
  const float x = x_of(slider.share);
  list.AddRectFilled({at.x + 1, y - 2}, {at.x + width - 1, y + 2},
                     mix(palette.panel, palette.text, 0.16), 2);
  if (slider.mark) {
    const float mark = x_of(*slider.mark);
    list.AddRectFilled({std::min(x, mark), y - 2}, {std::max(x, mark), y + 2}, palette.accent);
    list.AddRectFilled({mark - 1, y - 6}, {mark + 1, y + 6}, palette.text_dim);
  }
  const bool lit = slider.enabled && (active || hovered);
  list.AddCircleFilled({x, y}, lit ? kReach : kReach - 1,
                       slider.enabled ? palette.accent : palette.text_dim);
  if (lit) list.AddCircleFilled({x, y}, 3, palette.panel);
  ImGui::SetCursorScreenPos({at.x, at.y + kSliderHeight});
  return touch;
}

}  // namespace ringscope::viz
