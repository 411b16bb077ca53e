// Lists every key over everything else, from the same table that the keys are handled by.
#include <algorithm>

#include "viz/model/session/commands.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

void draw_help(const PanelContext& context) {
  constexpr float kColumn = 430, kMargin = 24;
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const auto lines = help_lines();
  const int columns = display.x >= 2 * kColumn + 4 * kMargin ? 2 : 1;
  float keys_width = 0;
  for (const HelpLine& line : lines)
    keys_width = std::max(keys_width, text_width(context.fonts.text, line.keys));
  const float width =
      std::min(static_cast<float>(columns) * kColumn + 2 * kMargin, display.x - 2 * kMargin);

  ImGui::SetNextWindowPos({display.x / 2, display.y / 2}, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::SetNextWindowSizeConstraints({width, 0}, {width, display.y - 2 * kMargin});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(kMargin, 18));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, context.palette.panel);
  const bool drawn = ImGui::Begin("help", nullptr,
                                  ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                                      ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoNav);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  if (drawn) {
    ImGui::PushFont(context.fonts.title);
    ImGui::TextUnformatted("Keys and mouse");
    ImGui::PopFont();
    ImGui::SameLine(0, 16);
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("? or Esc closes this");
    ImGui::Spacing();
    const std::size_t height =
        (lines.size() + static_cast<std::size_t>(columns) - 1) / static_cast<std::size_t>(columns);
    if (ImGui::BeginTable("keys", 2 * columns, ImGuiTableFlags_SizingStretchProp)) {
      for (int c = 0; c < columns; ++c) {
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, keys_width);
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
      }
      for (std::size_t row = 0; row < height; ++row) {
        for (std::size_t c = 0; c < static_cast<std::size_t>(columns); ++c) {
          const std::size_t i = c * height + row;
          if (i >= lines.size()) continue;
          ImGui::TableNextColumn();
          ImGui::PushStyleColor(ImGuiCol_Text, context.palette.accent);
          ImGui::TextUnformatted(lines[i].keys.data(), lines[i].keys.data() + lines[i].keys.size());
          ImGui::PopStyleColor();
          ImGui::TableNextColumn();
          ImGui::TextWrapped("%.*s", static_cast<int>(lines[i].text.size()), lines[i].text.data());
        }
      }
      ImGui::EndTable();
    }
    const bool outside = ImGui::IsMouseClicked(ImGuiMouseButton_Left) &&
                         !ImGui::IsWindowHovered(ImGuiHoveredFlags_RootAndChildWindows);
    if (outside) context.session.show_help = false;
  }
  ImGui::End();
}

}  // namespace ringscope::viz
