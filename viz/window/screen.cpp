#include "viz/window/screen.h"

#include <GL/gl.h>
#include <backends/imgui_impl_opengl3.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "viz/window/software_renderer.h"

namespace ringscope::viz {
namespace {

class GlTextures : public TextureStore {
 public:
  GlTextures() = default;
  ~GlTextures() override {
    for (const auto& [slot, texture] : slots_) glDeleteTextures(1, &texture.name);
  }
  GlTextures(const GlTextures&) = delete;
  GlTextures& operator=(const GlTextures&) = delete;

  ImTextureID update(const std::string& slot, const Image& image) override {
    Texture& texture = slots_[slot];
    if (texture.name == 0) glGenTextures(1, &texture.name);
    const auto id = reinterpret_cast<ImTextureID>(static_cast<std::intptr_t>(texture.name));
    if (image.pixels.empty()) return id;
    glBindTexture(GL_TEXTURE_2D, texture.name);
    glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
    if (texture.width == image.width && texture.height == image.height) {
      glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, image.width, image.height, GL_RGBA, GL_UNSIGNED_BYTE,
                      image.pixels.data());
      return id;
    }
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_LINEAR);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_LINEAR);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, image.width, image.height, 0, GL_RGBA, GL_UNSIGNED_BYTE,
                 image.pixels.data());
    texture.width = image.width;
    texture.height = image.height;
    return id;
  }

 private:
  struct Texture {
    unsigned name = 0;
    int width = 0, height = 0;
  };
  std::map<std::string, Texture> slots_;
};

class GlScreen : public Screen {
 public:
  TextureStore& textures() override { return textures_; }
  void attach() override {
    if (!ImGui_ImplOpenGL3_Init("#version 130"))
      throw RunError("the window can't be drawn in: OpenGL 3 does not start");
  }
  void detach() override { ImGui_ImplOpenGL3_Shutdown(); }
  void begin_frame() override { ImGui_ImplOpenGL3_NewFrame(); }
  void draw(const ImDrawData& data, Color background) override {
    const ImVec4 clear = ImGui::ColorConvertU32ToFloat4(background);
    glViewport(0, 0, static_cast<int>(data.DisplaySize.x * data.FramebufferScale.x),
               static_cast<int>(data.DisplaySize.y * data.FramebufferScale.y));
    glClearColor(clear.x, clear.y, clear.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    // The backend only reads the data.
    ImGui_ImplOpenGL3_RenderDrawData(const_cast<ImDrawData*>(&data));
  }

 private:
  GlTextures textures_;
};

class SoftwareScreen : public Screen {
 public:
  TextureStore& textures() override { return textures_; }
  void attach() override {}
  void detach() override {}
  void begin_frame() override {}
  void draw(const ImDrawData& data, Color background) override {
    const int width = static_cast<int>(data.DisplaySize.x * data.FramebufferScale.x);
    const int height = static_cast<int>(data.DisplaySize.y * data.FramebufferScale.y);
    if (image_.width != width || image_.height != height) image_ = Image(width, height);
    std::fill(image_.pixels.begin(), image_.pixels.end(), background);
    render(data, image_);
    glViewport(0, 0, width, height);
    glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
    glRasterPos2f(-1, 1);  // top left, because OpenGL's rows go up and ours down
    glPixelZoom(1, -1);
    glDrawPixels(width, height, GL_RGBA, GL_UNSIGNED_BYTE, image_.pixels.data());
  }

 private:
  SoftwareTextures textures_;
  Image image_;
};

bool computed_on_the_processor() {
  const auto* const name = reinterpret_cast<const char*>(glGetString(GL_RENDERER));
  if (name == nullptr) return false;
  for (const std::string_view software : {"llvmpipe", "softpipe", "Software Rasterizer", "swrast"})
    if (std::string_view(name).find(software) != std::string_view::npos) return true;
  return false;
}

}  // namespace

std::unique_ptr<Screen> make_screen() {
  if (computed_on_the_processor()) return std::make_unique<SoftwareScreen>();
  return std::make_unique<GlScreen>();
}

Image read_pixels(int width, int height) {
  Image image(width, height);
  glPixelStorei(GL_PACK_ALIGNMENT, 4);
  glReadPixels(0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE, image.pixels.data());
  for (int y = 0; y < height / 2; ++y)  // OpenGL's first row is the lowest
    std::swap_ranges(&image.at(0, y), &image.at(0, y) + width, &image.at(0, height - 1 - y));
  for (Color& pixel : image.pixels) pixel |= 0xff000000u;
  return image;
}

}  // namespace ringscope::viz
