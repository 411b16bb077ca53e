#include "viz/app/gl_renderer.h"

#include <GL/gl.h>
#include <backends/imgui_impl_opengl3.h>

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"

namespace ringscope::viz {

GlTextures::~GlTextures() {
  for (const auto& [slot, texture] : slots_) glDeleteTextures(1, &texture.name);
}

ImTextureID GlTextures::update(const std::string& slot, const Image& image) {
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

GlRenderer::GlRenderer() {
  if (!ImGui_ImplOpenGL3_Init("#version 130"))
    throw RunError("the window can't be drawn in: OpenGL 3 does not start");
}

GlRenderer::~GlRenderer() { ImGui_ImplOpenGL3_Shutdown(); }

void GlRenderer::begin_frame() { ImGui_ImplOpenGL3_NewFrame(); }

void GlRenderer::render(const ImDrawData& data, Color background) {
  const ImVec4 clear = ImGui::ColorConvertU32ToFloat4(background);
  glViewport(0, 0, static_cast<int>(data.DisplaySize.x * data.FramebufferScale.x),
             static_cast<int>(data.DisplaySize.y * data.FramebufferScale.y));
  glClearColor(clear.x, clear.y, clear.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  // The backend reads it only.
  ImGui_ImplOpenGL3_RenderDrawData(const_cast<ImDrawData*>(&data));
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
