#include "viz/window/style.h"

namespace ringscope::viz {

void apply_style(ImGuiStyle& style, const Palette& palette, Theme theme) {
  style = ImGuiStyle();
  style.WindowPadding = {10, 8};
  style.FramePadding = {9, 5};
  style.ItemSpacing = {8, 6};
  style.ItemInnerSpacing = {6, 4};
  style.CellPadding = {6, 3};
  style.ScrollbarSize = 11;
  style.GrabMinSize = 11;
  style.WindowRounding = 8;
  style.ChildRounding = 7;
  style.FrameRounding = 6;
  style.PopupRounding = 7;
  style.ScrollbarRounding = 6;
  style.GrabRounding = 6;
  style.TabRounding = 6;
  style.WindowBorderSize = 1;
  style.ChildBorderSize = 1;
  style.PopupBorderSize = 1;
  style.FrameBorderSize = 0;
  style.AntiAliasedLinesUseTex = false;

  if (theme == Theme::light) {
    ImGui::StyleColorsLight(&style);
  } else {
    ImGui::StyleColorsDark(&style);
  }
  const auto set = [&style](ImGuiCol which, Color color) {
    style.Colors[which] = ImGui::ColorConvertU32ToFloat4(color);
  };
  const auto tinted = [&palette](double share) {
    return mix(palette.panel, palette.accent, share);
  };
  const auto shaded = [&palette](double share) { return mix(palette.panel, palette.text, share); };
  set(ImGuiCol_Text, palette.text);
  set(ImGuiCol_TextDisabled, palette.text_dim);
  set(ImGuiCol_WindowBg, palette.background);
  set(ImGuiCol_ChildBg, palette.panel);
  set(ImGuiCol_PopupBg, mix(palette.panel, palette.background, 0.15));
  set(ImGuiCol_Border, palette.panel_border);
  set(ImGuiCol_BorderShadow, with_alpha(palette.panel, 0));
  set(ImGuiCol_FrameBg, shaded(0.06));
  set(ImGuiCol_FrameBgHovered, shaded(0.11));
  set(ImGuiCol_FrameBgActive, shaded(0.16));
  set(ImGuiCol_Button, shaded(0.07));
  set(ImGuiCol_ButtonHovered, shaded(0.14));
  set(ImGuiCol_ButtonActive, tinted(0.45));
  set(ImGuiCol_Header, tinted(0.25));
  set(ImGuiCol_HeaderHovered, tinted(0.35));
  set(ImGuiCol_HeaderActive, tinted(0.45));
  set(ImGuiCol_CheckMark, palette.accent);
  set(ImGuiCol_SliderGrab, palette.accent);
  set(ImGuiCol_SliderGrabActive, palette.accent);
  set(ImGuiCol_Separator, palette.panel_border);
  set(ImGuiCol_SeparatorHovered, tinted(0.5));
  set(ImGuiCol_SeparatorActive, palette.accent);
  set(ImGuiCol_ScrollbarBg, with_alpha(palette.panel, 0));
  set(ImGuiCol_ScrollbarGrab, shaded(0.18));
  set(ImGuiCol_ScrollbarGrabHovered, shaded(0.28));
  set(ImGuiCol_ScrollbarGrabActive, shaded(0.38));
  set(ImGuiCol_Tab, palette.panel);
  set(ImGuiCol_TabHovered, tinted(0.35));
  set(ImGuiCol_TabActive, tinted(0.22));
  set(ImGuiCol_TabUnfocused, palette.panel);
  set(ImGuiCol_TabUnfocusedActive, tinted(0.22));
  set(ImGuiCol_TableHeaderBg, shaded(0.05));
  set(ImGuiCol_TableBorderStrong, palette.panel_border);
  set(ImGuiCol_TableBorderLight, palette.grid);
  set(ImGuiCol_TableRowBg, with_alpha(palette.panel, 0));
  set(ImGuiCol_TableRowBgAlt, with_alpha(palette.text, 0.03));
  set(ImGuiCol_TextSelectedBg, with_alpha(palette.accent, 0.35));
  set(ImGuiCol_PlotHistogram, palette.accent);
  set(ImGuiCol_ModalWindowDimBg, with_alpha(palette.background, 0.6));
}

}  // namespace ringscope::viz
