#include "viz/window/still.h"

#include <imgui.h>

#include "viz/panels/charts/loss_picture.h"
#include "viz/panels/charts/sweep_charts.h"
#include "viz/window/fonts.h"
#include "viz/window/png.h"
#include "viz/window/software_renderer.h"

namespace ringscope::viz {

namespace {

constexpr float kScale = 1.25f;  // pixels per point

// Runs ImGui for one frame without a window.
class Canvas {
 public:
  Canvas(int width, int height, float scale) : context_(ImGui::CreateContext()) {
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.LogFilename = nullptr;
    io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
    fonts_ = add_fonts(*io.Fonts, scale);
    io.FontGlobalScale = 1 / scale;
    io.DisplayFramebufferScale = {scale, scale};
    io.DisplaySize = {static_cast<float>(width) / scale, static_cast<float>(height) / scale};
    io.DeltaTime = 1;
    io.Fonts->Flags |= ImFontAtlasFlags_NoBakedLines;
    io.Fonts->SetTexID(textures_.update("fonts", atlas_image(*io.Fonts)));
  }
  ~Canvas() { ImGui::DestroyContext(context_); }
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  const Fonts& fonts() const { return fonts_; }

 private:
  ImGuiContext* context_;
  SoftwareTextures textures_;
  Fonts fonts_;
};

}  // namespace

Image still_image(int width, int height,
                  const std::function<void(const ChartDrawing& drawing, const Box& box)>& draw) {
  const Canvas canvas(width, height, kScale);
  const Theme theme = Theme::dark;
  const Palette& palette = palette_of(theme);
  apply_style(ImGui::GetStyle(), palette, theme);
  ImGui::NewFrame();
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  draw({*ImGui::GetBackgroundDrawList(), canvas.fonts(), palette, theme}, {0, 0, size.x, size.y});
  ImGui::Render();
  Image image(width, height, 0xff000000u);
  render(*ImGui::GetDrawData(), image);
  return image;
}

Image loss_image(const LossCurve& curve) {
  const LossPicture picture = picture_of(curve);
  return still_image(1600, 900, [&](const ChartDrawing& drawing, const Box& box) {
    draw_loss_curve(drawing, picture, box);
  });
}

void write_loss_picture(const LossCurve& curve, const std::string& path) {
  write_png(path, loss_image(curve));
}

Image sweep_image(const SweepTable& table, const std::string& machine) {
  const SweepPicture picture = picture_of(table, machine);
  return still_image(1600, 1000, [&](const ChartDrawing& drawing, const Box& box) {
    draw_sweep(drawing, picture, box);
  });
}

void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path) {
  write_png(path, sweep_image(table, machine));
}

}  // namespace ringscope::viz
