#include "viz/window/still.h"

#include <imgui.h>

#include <functional>

#include "viz/panels/charts/loss_picture.h"
#include "viz/panels/charts/sweep_picture.h"
#include "viz/window/fonts.h"
#include "viz/window/software_renderer.h"

namespace ringscope::viz {

namespace {

constexpr float kScale = 1.25f;  // pixels per point

// Return a picture of width x height pixels. It has more than one pixel per point because pages
// show pictures reduced. `draw` fills the box.
Image still_image(int width, int height, Theme theme, std::string* svg,
                  const std::function<void(const ChartDrawing& drawing, const Box& box)>& draw) {
  SoftwareTextures textures;
  const ImGuiSession imgui(textures, kScale);
  const ImVec2 size(static_cast<float>(width) / kScale, static_cast<float>(height) / kScale);
  ImGui::GetIO().DisplaySize = size;
  ImGui::GetIO().DeltaTime = 1;
  const Palette& palette = palette_of(theme);
  apply_style(ImGui::GetStyle(), palette, theme);
  ImGui::NewFrame();
  begin_root_window();
  draw({imgui.fonts(), palette, theme}, {0, 0, size.x, size.y});
  ImGui::End();
  ImGui::Render();
  if (svg != nullptr) {
    *svg = svg_of(*ImGui::GetDrawData(), width, height);
    return {};
  }
  Image image(width, height, 0xff000000u);
  render(*ImGui::GetDrawData(), image);
  return image;
}

}  // namespace

Image loss_image(const LossCurve& curve, Theme theme, std::string* svg) {
  const LossPicture picture = picture_of(curve);
  return still_image(1600, 900, theme, svg, [&](const ChartDrawing& drawing, const Box& box) {
    draw_loss_curve(drawing, picture, box);
  });
}

Image sweep_image(const SweepTable& table, const std::string& machine, Theme theme,
                  std::string* svg) {
  const SweepPicture picture = picture_of(table, machine);
  return still_image(1600, 1000, theme, svg, [&](const ChartDrawing& drawing, const Box& box) {
    draw_sweep(drawing, picture, box);
  });
}

}  // namespace ringscope::viz
