#include "viz/window/outlines.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "viz/panels/imgui_versions.h"
#include "viz/window/fonts.h"

namespace ringscope::viz {
namespace {

// ImGui gives a font's size from ascender to descender, SVG and PDF that of its em. Roboto's hhea table
// has 1900 and -500 of 2048 units.
constexpr float kEmOfSize = 2048.0f / 2400.0f;

unsigned alpha_of(Color color) { return color >> 24; }

float rounded(float x) { return static_cast<float>(std::round(x * 100.0) / 100); }

class Tracer {
 public:
  Tracer(const ImDrawData& data, Outlines& to) : data_(data), to_(to) {
    const ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    fonts_texture_ = texture_id_of(atlas);
    for (ImFont* font : atlas.Fonts)
      for (const ImFontGlyph& glyph : glyphs_of(font)->Glyphs)
        if (glyph.Visible) glyphs_[{glyph.U0, glyph.V0}] = {font, &glyph};
  }

  void trace() {
    for (int l = 0; l < data_.CmdListsCount; ++l) {
      const ImDrawList& list = *data_.CmdLists[l];
      for (const ImDrawCmd& command : list.CmdBuffer)
        if (command.UserCallback == nullptr) trace(list, command);
    }
  }

 private:
  using Triangle = std::array<unsigned, 3>;

  void trace(const ImDrawList& list, const ImDrawCmd& command) {
    const Image* const picture = image_of(command.GetTexID());
    const ImVec4& clip = command.ClipRect;
    if (picture == nullptr || clip.x >= clip.z || clip.y >= clip.w) return;
    to_.clip({clip.x, clip.y, clip.z, clip.w});
    vertices_ = list.VtxBuffer.Data + command.VtxOffset;
    const ImDrawIdx* const indices = list.IdxBuffer.Data + command.IdxOffset;
    for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
      const ImDrawIdx* const index = indices + i;
      const ImDrawVert &a = vertices_[index[0]], &c = vertices_[index[2]];
      const bool is_quad =
          i + 5 < command.ElemCount && index[0] == index[3] && index[2] == index[4];
      const bool textured = is_quad && a.uv.x != c.uv.x && a.uv.y != c.uv.y;
      if (!textured) {
        add_triangle({index[0], index[1], index[2]});
        continue;
      }
      flush_shape();
      if (command.GetTexID() == fonts_texture_) {
        add_glyph(a, c);
      } else if (!picture->pixels.empty()) {
        flush_text();
        to_.picture(Box::between(a.pos, c.pos), *picture);
      }
      i += 3;
    }
    flush_shape();
    flush_text();
  }

  // ---
  // Shapes. Triangles of one colour become the outline of their union: edges between two of them
  // cancel. ImGui smooths a shape by a fringe that fades from half a pixel inside to half a pixel
  // outside; its transparent vertices go to where the shape really ends, half of the way.

  void add_triangle(const Triangle& triangle) {
    Color color = 0;
    for (const unsigned v : triangle)
      if (alpha_of(vertices_[v].col) > alpha_of(color)) color = vertices_[v].col;
    if (alpha_of(color) == 0) return;
    flush_text();
    // Shapes have vertices of their own. Translucent ones are painted one by one, since they may
    // overlap.
    const unsigned first = *std::min_element(triangle.begin(), triangle.end());
    if (!shape_.empty() &&
        (color != shape_color_ || (alpha_of(color) < 255 && first > last_vertex_)))
      flush_shape();
    shape_color_ = color;
    last_vertex_ = std::max(last_vertex_, *std::max_element(triangle.begin(), triangle.end()));
    shape_.push_back(triangle);
  }

  void flush_shape() {
    if (shape_.empty()) return;
    // Of each transparent vertex, the nearest one that is not, with its squared distance.
    std::map<unsigned, std::pair<float, unsigned>> partners;
    const auto fades = [&](unsigned v) { return alpha_of(vertices_[v].col) == 0; };
    for (const Triangle& t : shape_)
      for (const unsigned v : t)
        for (const unsigned other : t)
          if (fades(v) && !fades(other)) {
            const float x = vertices_[v].pos.x - vertices_[other].pos.x;
            const float y = vertices_[v].pos.y - vertices_[other].pos.y;
            const std::pair<float, unsigned> found{x * x + y * y, other};
            auto& nearest = partners.try_emplace(v, found).first->second;
            nearest = std::min(nearest, found);
          }
    const auto place = [&](unsigned v) {
      const auto partner = partners.find(v);
      const ImVec2 at = vertices_[v].pos;
      if (partner == partners.end()) return at;
      const ImVec2 inside = vertices_[partner->second.second].pos;
      return ImVec2((at.x + inside.x) / 2, (at.y + inside.y) / 2);
    };
    std::set<std::pair<unsigned, unsigned>> edges;
    for (Triangle t : shape_) {
      const ImVec2 a = place(t[0]), b = place(t[1]), c = place(t[2]);
      const float area = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
      if (area < 0) std::swap(t[1], t[2]);
      for (std::size_t k = 0; area != 0 && k < 3; ++k)
        if (edges.erase({t[(k + 1) % 3], t[k]}) == 0) edges.insert({t[k], t[(k + 1) % 3]});
    }
    Loops loops;
    while (!edges.empty()) {
      const unsigned start = edges.begin()->first;
      std::vector<ImVec2>& loop = loops.emplace_back();
      for (auto edge = edges.begin(); edge != edges.end();) {
        const ImVec2 exact = place(edge->first), at(rounded(exact.x), rounded(exact.y));
        if (loop.empty() || at.x != loop.back().x || at.y != loop.back().y) loop.push_back(at);
        const unsigned to = edge->second;
        edges.erase(edge);
        edge = to == start ? edges.end() : edges.lower_bound({to, 0});
        if (edge != edges.end() && edge->first != to) break;
      }
    }
    to_.shape(shape_color_, loops);
    shape_.clear();
    last_vertex_ = 0;
  }

  // ---
  // Text. A glyph is known by its place in the fonts' texture; those that follow each other on a line
  // are one text, and wide gaps between them its blanks.

  void add_glyph(const ImDrawVert& a, const ImDrawVert& c) {
    const auto known = glyphs_.find({a.uv.x, a.uv.y});
    if (known == glyphs_.end()) return;  // the texture's lines and cursors
    const auto& [font, glyph] = known->second;
    const float scale = (c.pos.x - a.pos.x) / (glyph->X1 - glyph->X0);
    const float begin = a.pos.x - glyph->X0 * scale;
    const float baseline = a.pos.y - glyph->Y0 * scale + glyphs_of(font)->Ascent * scale;
    const float blank = glyphs_of(font)->GetCharAdvance(' ') * scale;
    const float blanks = std::round((begin - run_.end) / blank);
    const bool goes_on = font_ == font && run_.color == a.col &&
                         std::abs(run_.baseline - baseline) < 0.1f && blanks >= 0 && blanks <= 3 &&
                         std::abs(begin - run_.end - blanks * blank) < 0.3f;
    if (!goes_on) {
      flush_text();
      font_ = font;
      run_ = {.strong = font->GetDebugName() == std::string_view(kStrongFont),
              .color = a.col,
              .size = size_of_glyphs(font) * scale * kEmOfSize,
              .baseline = baseline,
              .begin = begin};
    } else {
      run_.text.append(static_cast<std::size_t>(blanks), ' ');
    }
    char utf8[5];
    ImTextCharToUtf8(utf8, glyph->Codepoint);
    run_.text += utf8;
    run_.end = begin + glyph->AdvanceX * scale;
    ++run_.glyphs;
  }

  void flush_text() {
    if (run_.glyphs > 0) to_.text(run_);
    run_ = {};
    font_ = nullptr;
  }

  const ImDrawData& data_;
  Outlines& to_;
  ImTextureID fonts_texture_;
  std::map<std::pair<float, float>, std::pair<ImFont*, const ImFontGlyph*>> glyphs_;
  const ImDrawVert* vertices_ = nullptr;  // of the command
  std::vector<Triangle> shape_;
  Color shape_color_ = 0;
  unsigned last_vertex_ = 0;
  TextRun run_;
  ImFont* font_ = nullptr;  // of the run
};

}  // namespace

void trace_outlines(const ImDrawData& data, Outlines& to) { Tracer(data, to).trace(); }

std::string short_number(double x) { return fmt::format("{}", std::round(x * 100) / 100 + 0.0); }

}  // namespace ringscope::viz
