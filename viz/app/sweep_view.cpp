#include "viz/app/sweep_view.h"

#include <imgui.h>

#include "viz/app/fonts.h"
#include "viz/app/png.h"
#include "viz/app/software_renderer.h"
#include "viz/app/style.h"
#include "viz/model/palette.h"
#include "viz/panels/sweep_charts.h"

namespace ringscope::viz {
namespace {

constexpr int kWidth = 1600, kHeight = 1000;
constexpr float kScale = 1.25f;  // pixels to a point: pages show it smaller than it is

// ImGui for one frame without a window.
class Canvas {
 public:
  explicit Canvas(float scale) : context_(ImGui::CreateContext()) {
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.LogFilename = nullptr;
    io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
    fonts_ = add_fonts(*io.Fonts, scale);
    io.FontGlobalScale = 1 / scale;
    io.DisplayFramebufferScale = {scale, scale};
    io.DisplaySize = {kWidth / scale, kHeight / scale};
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

Image sweep_image(const SweepTable& table, const std::string& machine) {
  const SweepPicture picture = picture_of(table, machine);
  const Canvas canvas(kScale);
  const Theme theme = Theme::dark;
  const Palette& palette = palette_of(theme);
  apply_style(ImGui::GetStyle(), palette, theme);
  ImGui::NewFrame();
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  draw_sweep({*ImGui::GetBackgroundDrawList(), canvas.fonts(), palette, theme}, picture,
             {0, 0, size.x, size.y});
  ImGui::Render();
  Image image(kWidth, kHeight, 0xff000000u);
  render(*ImGui::GetDrawData(), image);
  return image;
}

void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path) {
  write_png(path, sweep_image(table, machine));
}

}  // namespace ringscope::viz
