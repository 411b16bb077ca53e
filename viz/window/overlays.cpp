#include "viz/window/overlays.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/panels/format.h"

namespace ringscope::viz {
namespace {

constexpr ImGuiWindowFlags kOverlay = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                      ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoNav;

}  // namespace

void draw_loading(const LoadProgress& progress, const Fonts& fonts, const Palette& palette) {
  const auto total = static_cast<double>(progress.bytes_total.load());
  const auto done = static_cast<double>(progress.bytes_done.load());
  const auto slices = static_cast<double>(progress.slices.load());
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float width = std::min(420.0f, room.x - 40);
  const auto centred = [&](ImFont* font, const std::string& text, Color color) {
    ImGui::PushFont(font);
    ImGui::SetCursorPosX((room.x - ImGui::CalcTextSize(text.c_str()).x) / 2);
    ImGui::PushStyleColor(ImGuiCol_Text, color);
    ImGui::TextUnformatted(text.c_str());
    ImGui::PopStyleColor();
    ImGui::PopFont();
  };
  ImGui::SetCursorPosY(room.y / 2 - 50);
  centred(fonts.title, "Opening\u2026", palette.text);
  ImGui::SetCursorPosX((room.x - width) / 2);
  ImGui::ProgressBar(total > 0 ? static_cast<float>(std::min(1.0, done / total)) : 0, {width, 8},
                     "");
  centred(fonts.text,
          fmt::format("{} of {} \u00b7 {} slices", bytes_text(done), bytes_text(total),
                      count_text(slices)),
          palette.text_dim);
}

bool draw_error(const std::string& text, const Fonts& fonts, const Palette& palette) {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const ImVec2 middle(display.x / 2, display.y / 2);
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(display);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, with_alpha(palette.background, 0.6));
  ImGui::Begin("shade", nullptr, kOverlay & ~ImGuiWindowFlags_AlwaysAutoResize);
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();

  ImGui::SetNextWindowPos(middle, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(24, 20));
  ImGui::Begin("error", nullptr, kOverlay);
  ImGui::PopStyleVar();
  ImGui::SetWindowFocus();
  ImGui::PushFont(fonts.title);
  ImGui::PushStyleColor(ImGuiCol_Text, palette.warning);
  ImGui::TextUnformatted("This can't be opened");
  ImGui::PopStyleColor();
  ImGui::PopFont();
  ImGui::Spacing();
  ImGui::PushTextWrapPos(std::min(620.0f, display.x - 80));
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopTextWrapPos();
  ImGui::Spacing();
  const bool closed = ImGui::Button("Close", {100, 0});
  ImGui::End();
  return closed;
}

void draw_notice(const std::string& text, float opacity, const Palette& palette) {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({display.x / 2, display.y - 90}, ImGuiCond_Always, {0.5f, 1});
  ImGui::PushStyleVar(ImGuiStyleVar_Alpha, opacity);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(16, 10));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, mix(palette.panel, palette.accent, 0.2));
  ImGui::Begin("notice", nullptr,
               kOverlay | ImGuiWindowFlags_NoInputs | ImGuiWindowFlags_NoFocusOnAppearing);
  ImGui::TextUnformatted(text.c_str());
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
}

}  // namespace ringscope::viz
