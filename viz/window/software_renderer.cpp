#include "viz/window/software_renderer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "viz/panels/imgui_versions.h"

namespace ringscope::viz {
namespace {

// In pixels: beyond any picture, but its square in 1/256 pixels does not overflow.
constexpr float kFar = 1e6f;

// A rectangle in pixels, half open.
struct Clip {
  int x0, y0, x1, y1;
};

struct Rgba {
  float r, g, b, a;
};

Rgba unpacked(Color c) {
  return {static_cast<float>(c & 255), static_cast<float>(c >> 8 & 255),
          static_cast<float>(c >> 16 & 255), static_cast<float>(c >> 24)};
}
Rgba operator+(Rgba a, Rgba b) { return {a.r + b.r, a.g + b.g, a.b + b.b, a.a + b.a}; }
Rgba operator*(Rgba c, float s) { return {c.r * s, c.g * s, c.b * s, c.a * s}; }

std::uint32_t divided_by_255(std::uint32_t x) { return (x + 128 + ((x + 128) >> 8)) >> 8; }

// Return `over` on top of an opaque `under`.
Color blended(Color under, Color over) {
  const std::uint32_t alpha = over >> 24;
  if (alpha == 255) return over;
  if (alpha == 0) return under;
  Color out = 0xff000000u;
  for (const int shift : {0, 8, 16}) {
    const std::uint32_t a = over >> shift & 255, b = under >> shift & 255;
    out |= divided_by_255(a * alpha + b * (255 - alpha)) << shift;
  }
  return out;
}

Color packed(Rgba c) {
  const auto byte = [](float v) {
    return static_cast<Color>(std::clamp(static_cast<int>(v + 0.5f), 0, 255));
  };
  return byte(c.r) | byte(c.g) << 8 | byte(c.b) << 16 | byte(c.a) << 24;
}

Color multiplied(Color a, Color b) {
  if (b == 0xffffffffu) return a;
  Color out = 0;
  for (const int shift : {0, 8, 16, 24})
    out |= divided_by_255((a >> shift & 255) * (b >> shift & 255)) << shift;
  return out;
}

// Samples a texture as a driver does, with linear filtering and clamped edges.
class Sampler {
 public:
  explicit Sampler(const Image& image) : image_(image) {}

  // Return the colour at (u, v), in texels.
  Color at(float u, float v) const {
    const float x = std::clamp(u - 0.5f, 0.0f, static_cast<float>(image_.width - 1));
    const float y = std::clamp(v - 0.5f, 0.0f, static_cast<float>(image_.height - 1));
    const int x0 = static_cast<int>(x), y0 = static_cast<int>(y);
    const int x1 = std::min(x0 + 1, image_.width - 1), y1 = std::min(y0 + 1, image_.height - 1);
    const auto fx = static_cast<std::uint32_t>((x - x0) * 256 + 0.5f);
    const auto fy = static_cast<std::uint32_t>((y - y0) * 256 + 0.5f);
    if (fx == 0 && fy == 0) return image_.at(x0, y0);
    const Color c00 = image_.at(x0, y0), c10 = image_.at(x1, y0);
    const Color c01 = image_.at(x0, y1), c11 = image_.at(x1, y1);
    Color out = 0;
    for (const int shift : {0, 8, 16, 24}) {
      const std::uint32_t top = (c00 >> shift & 255) * (256 - fx) + (c10 >> shift & 255) * fx;
      const std::uint32_t low = (c01 >> shift & 255) * (256 - fx) + (c11 >> shift & 255) * fx;
      out |= ((top * (256 - fy) + low * fy + 32768) >> 16) << shift;
    }
    return out;
  }
  // Return whether `count` steps of `scale` from `first` go between centres of neighbouring texels.
  static bool lies_on_texels(float first, float scale, int count, float size) {
    constexpr float kClose = 1.0f / 1024;  // with a larger error another texel would show
    const float off = first - std::floor(first) - 0.5f;
    const auto steps = static_cast<float>(count);
    return std::abs(off) < kClose && std::abs(scale - 1) * steps < kClose && first > 0 &&
           first + steps - 1 < size;
  }
  const Color* row(int y) const {
    return image_.pixels.data() +
           static_cast<std::size_t>(y) * static_cast<std::size_t>(image_.width);
  }
  float width() const { return image_.width; }
  float height() const { return image_.height; }

 private:
  const Image& image_;
};

bool same_uv(const ImDrawVert& a, const ImDrawVert& b) {
  return a.uv.x == b.uv.x && a.uv.y == b.uv.y;
}

// Return the first pixel whose centre is not before `edge`.
int first_pixel(float edge) {
  return static_cast<int>(std::ceil(std::clamp(edge, -kFar, kFar) - 0.5f));
}

void fill_span(Color* row, int x0, int x1, Color color) {
  if (color >> 24 == 255) {
    std::fill(row + x0, row + x1, color);
  } else {
    for (int x = x0; x < x1; ++x) row[x] = blended(row[x], color);
  }
}

// Draw an upright rectangle of one colour from its top left (a) to its bottom right corner (c).
void draw_rectangle(const ImDrawVert& a, const ImDrawVert& c, const Sampler& texture,
                    const Clip& clip, Image& image) {
  const int x0 = std::max(first_pixel(a.pos.x), clip.x0);
  const int x1 = std::min(first_pixel(c.pos.x), clip.x1);
  const int y0 = std::max(first_pixel(a.pos.y), clip.y0);
  const int y1 = std::min(first_pixel(c.pos.y), clip.y1);
  if (x0 >= x1 || y0 >= y1) return;
  if (same_uv(a, c)) {
    const Color texel = texture.at(a.uv.x * texture.width(), a.uv.y * texture.height());
    const Color color = multiplied(texel, a.col);
    for (int y = y0; y < y1; ++y) fill_span(&image.at(0, y), x0, x1, color);
    return;
  }
  const float u_scale = (c.uv.x - a.uv.x) * texture.width() / (c.pos.x - a.pos.x);
  const float v_scale = (c.uv.y - a.uv.y) * texture.height() / (c.pos.y - a.pos.y);
  // These are the texture coordinates of the first pixel's centre.
  const float u0 = a.uv.x * texture.width() + (x0 + 0.5f - a.pos.x) * u_scale;
  const float v0 = a.uv.y * texture.height() + (y0 + 0.5f - a.pos.y) * v_scale;
  const bool copies = texture.lies_on_texels(u0, u_scale, x1 - x0, texture.width()) &&
                      texture.lies_on_texels(v0, v_scale, y1 - y0, texture.height());
  for (int y = y0; y < y1; ++y) {
    Color* const row = &image.at(0, y);
    const auto dy = static_cast<float>(y - y0);
    if (copies) {
      const Color* const texels = texture.row(static_cast<int>(v0 + dy)) + static_cast<int>(u0);
      for (int x = x0; x < x1; ++x) row[x] = blended(row[x], multiplied(texels[x - x0], a.col));
      continue;
    }
    for (int x = x0; x < x1; ++x) {
      const float u = u0 + (x - x0) * u_scale;
      row[x] = blended(row[x], multiplied(texture.at(u, v0 + dy * v_scale), a.col));
    }
  }
}

// A vertex in 1/256 pixels. Integers ensure that exactly one of two triangles draws a pixel on
// their shared edge.
struct Point {
  std::int64_t x, y;
};

std::int64_t floor_divided(std::int64_t a, std::int64_t b) {  // b > 0
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// a * x + b >= 0 holds inside the triangle, for pixel x of one row.
struct Edge {
  std::int64_t a, b;
};

// Return the edge from p to q of a triangle clockwise on the screen, in the row with centre `y`.
Edge edge_in_row(Point p, Point q, std::int64_t y) {
  const std::int64_t dx = q.x - p.x, dy = q.y - p.y;
  const bool owns = dy < 0 || (dy == 0 && dx > 0);  // pixels on a left or top edge belong to it
  // dx * (y - p.y) - dy * (256 x + 128 - p.x), positive inside
  return {-dy * 256, dx * (y - p.y) - dy * (128 - p.x) - (owns ? 0 : 1)};
}

void draw_triangle(const ImDrawVert* const (&given)[3], const Sampler& texture, const Clip& clip,
                   Image& image) {
  std::array<const ImDrawVert*, 3> v = {given[0], given[1], given[2]};
  std::array<Point, 3> p{};
  const auto place = [&] {
    for (std::size_t i = 0; i < 3; ++i) {
      const auto fixed = [](float x) {
        const float near = x >= -kFar ? std::min(x, kFar) : -kFar;  // also maps NaN to -kFar
        return static_cast<std::int64_t>(std::lround(near * 256));
      };
      p[i] = {fixed(v[i]->pos.x), fixed(v[i]->pos.y)};
    }
  };
  place();
  std::int64_t area = (p[1].x - p[0].x) * (p[2].y - p[0].y) - (p[1].y - p[0].y) * (p[2].x - p[0].x);
  if (area == 0) return;
  if (area < 0) {
    std::swap(v[1], v[2]);
    std::swap(p[1], p[2]);
    area = -area;
  }
  const bool flat = v[0]->col == v[1]->col && v[0]->col == v[2]->col && same_uv(*v[0], *v[1]) &&
                    same_uv(*v[0], *v[2]);
  const Color flat_color = multiplied(
      texture.at(v[0]->uv.x * texture.width(), v[0]->uv.y * texture.height()), v[0]->col);
  const std::array<Rgba, 3> colors = {unpacked(v[0]->col), unpacked(v[1]->col),
                                      unpacked(v[2]->col)};
  const auto [low, high] = std::minmax({p[0].y, p[1].y, p[2].y});
  const int y0 = std::max<std::int64_t>(floor_divided(low, 256), clip.y0);
  const int y1 = std::min<std::int64_t>(floor_divided(high, 256) + 1, clip.y1);
  for (int y = y0; y < y1; ++y) {
    const std::int64_t row_y = std::int64_t{y} * 256 + 128;
    // edges[i] is opposite vertex i, so its value over the area is the vertex' share.
    const std::array<Edge, 3> edges = {edge_in_row(p[1], p[2], row_y),
                                       edge_in_row(p[2], p[0], row_y),
                                       edge_in_row(p[0], p[1], row_y)};
    std::int64_t x0 = clip.x0, x1 = clip.x1;
    for (const Edge& e : edges) {
      if (e.a > 0) x0 = std::max(x0, -floor_divided(e.b, e.a));
      if (e.a < 0) x1 = std::min(x1, floor_divided(e.b, -e.a) + 1);
      if (e.a == 0 && e.b < 0) x1 = x0;
    }
    if (x0 >= x1) continue;
    Color* const row = &image.at(0, y);
    if (flat) {
      fill_span(row, x0, x1, flat_color);
      continue;
    }
    for (std::int64_t x = x0; x < x1; ++x) {
      std::array<float, 3> share{};
      for (std::size_t i = 0; i < 3; ++i)
        share[i] = static_cast<float>(edges[i].a * x + edges[i].b) / area;
      const Color color =
          packed(colors[0] * share[0] + colors[1] * share[1] + colors[2] * share[2]);
      const float u = v[0]->uv.x * share[0] + v[1]->uv.x * share[1] + v[2]->uv.x * share[2];
      const float t = v[0]->uv.y * share[0] + v[1]->uv.y * share[1] + v[2]->uv.y * share[2];
      row[x] =
          blended(row[x], multiplied(texture.at(u * texture.width(), t * texture.height()), color));
    }
  }
}

// Return whether triangles 0 1 2 and 0 2 3 form an upright rectangle of one colour, as ImGui's do.
bool is_rectangle(const ImDrawIdx* index, const ImDrawVert* vertices) {
  if (index[0] != index[3] || index[2] != index[4]) return false;
  const ImDrawVert &a = vertices[index[0]], &b = vertices[index[1]], &c = vertices[index[2]],
                   &d = vertices[index[5]];
  return a.pos.y == b.pos.y && b.pos.x == c.pos.x && c.pos.y == d.pos.y && d.pos.x == a.pos.x &&
         a.pos.x < c.pos.x && a.pos.y < c.pos.y && a.col == b.col && a.col == c.col &&
         a.col == d.col && a.uv.y == b.uv.y && b.uv.x == c.uv.x && c.uv.y == d.uv.y &&
         d.uv.x == a.uv.x;
}

}  // namespace

void render(const ImDrawData& data, Image& image) {
  const ImVec2 scale = data.FramebufferScale;
  std::vector<ImDrawVert> scaled;
  for (int l = 0; l < data.CmdListsCount; ++l) {
    const ImDrawList& list = *data.CmdLists[l];
    const ImDrawVert* first_vertex = list.VtxBuffer.Data;
    if (scale.x != 1 || scale.y != 1) {
      scaled.assign(list.VtxBuffer.begin(), list.VtxBuffer.end());
      for (ImDrawVert& vertex : scaled)
        vertex.pos = {vertex.pos.x * scale.x, vertex.pos.y * scale.y};
      first_vertex = scaled.data();
    }
    for (const ImDrawCmd& command : list.CmdBuffer) {
      if (command.UserCallback != nullptr) continue;
      const Image* const picture = image_of(command.GetTexID());
      if (picture == nullptr || picture->pixels.empty()) continue;
      const Sampler texture(*picture);
      const auto pixel = [](float edge, int most) {
        return static_cast<int>(std::clamp(edge, 0.0f, static_cast<float>(most)));
      };
      const Clip clip = {pixel(command.ClipRect.x * scale.x, image.width),
                         pixel(command.ClipRect.y * scale.y, image.height),
                         pixel(command.ClipRect.z * scale.x, image.width),
                         pixel(command.ClipRect.w * scale.y, image.height)};
      if (clip.x0 >= clip.x1 || clip.y0 >= clip.y1) continue;
      const ImDrawVert* const vertices = first_vertex + command.VtxOffset;
      const ImDrawIdx* const indices = list.IdxBuffer.Data + command.IdxOffset;
      for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
        const ImDrawIdx* const index = indices + i;
        if (i + 5 < command.ElemCount && is_rectangle(index, vertices)) {
          draw_rectangle(vertices[index[0]], vertices[index[2]], texture, clip, image);
          i += 3;
          continue;
        }
        const ImDrawVert* const corners[3] = {vertices + index[0], vertices + index[1],
                                              vertices + index[2]};
        draw_triangle(corners, texture, clip, image);
      }
    }
  }
}

}  // namespace ringscope::viz
