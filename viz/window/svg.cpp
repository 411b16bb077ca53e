// Writes ImGui's draw lists as SVG: outlines in place of triangles, text as text in the font's
// family, textures as embedded PNG. For pictures that a paper takes and a reader enlarges.
#include "viz/window/software_renderer.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "viz/data/timeline/palette.h"
#include "viz/panels/imgui_versions.h"
#include "viz/window/fonts.h"
#include "viz/window/pictures.h"

namespace ringscope::viz {
namespace {

// ImGui gives a font's size from ascender to descender, SVG that of its em. Roboto's hhea table has
// 1900 and -500 of 2048 units.
constexpr double kEmOfSize = 2048.0 / 2400.0;

std::string number(double x) { return fmt::format("{}", std::round(x * 100) / 100 + 0.0); }

unsigned alpha_of(ImU32 color) { return color >> 24; }

std::string fill_of(ImU32 color) {
  const std::string opacity =
      alpha_of(color) == 255 ? ""
                             : fmt::format(" fill-opacity=\"{}\"", number(alpha_of(color) / 255.0));
  return fmt::format(" fill=\"#{:02x}{:02x}{:02x}\"{}", color & 255, color >> 8 & 255,
                     color >> 16 & 255, opacity);
}

// Text of one font and colour on one line, glyph by glyph.
struct TextRun {
  ImFont* font = nullptr;
  ImU32 color = 0;
  float scale = 1, baseline = 0, begin = 0, pen = 0;
  int glyphs = 0;
  std::string text;
};

class SvgWriter {
 public:
  SvgWriter(const ImDrawData& data, std::string& out) : data_(data), out_(out) {
    const ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    fonts_texture_ = texture_id_of(atlas);
    for (ImFont* font : atlas.Fonts)
      for (const ImFontGlyph& glyph : glyphs_of(font)->Glyphs)
        if (glyph.Visible) glyphs_[{glyph.U0, glyph.V0}] = {font, &glyph};
  }

  void write() {
    for (int l = 0; l < data_.CmdListsCount; ++l) {
      const ImDrawList& list = *data_.CmdLists[l];
      for (const ImDrawCmd& command : list.CmdBuffer)
        if (command.UserCallback == nullptr) write(list, command);
    }
    if (!clip_.empty()) out_ += "</g>\n";
  }

 private:
  using Triangle = std::array<unsigned, 3>;

  void write(const ImDrawList& list, const ImDrawCmd& command) {
    const Image* const picture = image_of(command.GetTexID());
    if (picture == nullptr || command.ClipRect.x >= command.ClipRect.z ||
        command.ClipRect.y >= command.ClipRect.w)
      return;
    clip_to(command.ClipRect);
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
      if (command.GetTexID() == fonts_texture_)
        add_glyph(a, c);
      else
        write_image(a, c, *picture);
      i += 3;
    }
    flush_shape();
    flush_text();
  }

  void clip_to(const ImVec4& clip) {
    const std::string rect =
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", number(clip.x),
                    number(clip.y), number(clip.z - clip.x), number(clip.w - clip.y));
    if (rect == clip_) return;
    if (!clip_.empty()) out_ += "</g>\n";
    clip_ = rect;
    const auto [known, is_new] = clips_.try_emplace(rect, clips_.size());
    if (is_new) out_ += fmt::format("<clipPath id=\"c{}\">{}</clipPath>\n", known->second, rect);
    out_ += fmt::format("<g clip-path=\"url(#c{})\">\n", known->second);
  }

  // ---
  // Shapes. Triangles of one colour become the outline of their union: edges between two of them
  // cancel. ImGui smooths a shape by a fringe that fades from half a pixel inside to half a pixel
  // outside; its transparent vertices go to where the shape really ends, half of the way.

  void add_triangle(const Triangle& triangle) {
    ImU32 color = 0;
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
    std::string path;
    while (!edges.empty()) {
      const unsigned start = edges.begin()->first;
      char letter = 'M';
      std::string last;
      for (auto edge = edges.begin(); edge != edges.end();) {
        const ImVec2 at = place(edge->first);
        const std::string point = number(at.x) + " " + number(at.y);
        if (point != std::exchange(last, point)) path += std::exchange(letter, 'L') + point;
        const unsigned to = edge->second;
        edges.erase(edge);
        edge = to == start ? edges.end() : edges.lower_bound({to, 0});
        if (edge != edges.end() && edge->first != to) break;
      }
      path += 'Z';
    }
    out_ += fmt::format("<path{} d=\"{}\"/>\n", fill_of(shape_color_), path);
    shape_.clear();
    last_vertex_ = 0;
  }

  void write_image(const ImDrawVert& a, const ImDrawVert& c, const Image& image) {
    if (image.pixels.empty()) return;
    flush_text();
    out_ += fmt::format(
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
        "href=\"data:image/png;base64,{}\"/>\n",
        number(a.pos.x), number(a.pos.y), number(c.pos.x - a.pos.x), number(c.pos.y - a.pos.y),
        base64(png_of(image)));
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
    const float blanks = std::round((begin - run_.pen) / blank);
    const bool goes_on = run_.font == font && run_.color == a.col &&
                         std::abs(run_.baseline - baseline) < 0.1f && blanks >= 0 && blanks <= 3 &&
                         std::abs(begin - run_.pen - blanks * blank) < 0.3f;
    if (!goes_on) {
      flush_text();
      run_ = {font, a.col, scale, baseline, begin, begin, 0, ""};
    } else {
      run_.text.append(static_cast<std::size_t>(blanks), ' ');
    }
    char utf8[5];
    ImTextCharToUtf8(utf8, glyph->Codepoint);
    run_.text += utf8;
    run_.pen = begin + glyph->AdvanceX * scale;
    ++run_.glyphs;
  }

  void flush_text() {
    if (run_.glyphs == 0) return;
    const bool strong = run_.font->GetDebugName() == std::string_view(kStrongFont);
    out_ += fmt::format(
        "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{}{}{}>{}</text>\n", number(run_.begin),
        number(run_.baseline), number(size_of_glyphs(run_.font) * run_.scale * kEmOfSize),
        strong ? " font-weight=\"500\"" : "",
        run_.glyphs > 1 ? fmt::format(" textLength=\"{}\"", number(run_.pen - run_.begin)) : "",
        fill_of(run_.color), escaped_xml(run_.text));
    run_ = {};
  }

  const ImDrawData& data_;
  std::string& out_;
  ImTextureID fonts_texture_;
  std::map<std::pair<float, float>, std::pair<ImFont*, const ImFontGlyph*>> glyphs_;
  std::map<std::string, std::size_t> clips_;
  std::string clip_;                      // of the open group; "" if none is open
  const ImDrawVert* vertices_ = nullptr;  // of the command
  std::vector<Triangle> shape_;
  ImU32 shape_color_ = 0;
  unsigned last_vertex_ = 0;
  TextRun run_;
};

}  // namespace

std::string svg_of(const ImDrawData& data, int width, int height, const std::string& style) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" "
      "font-family=\"Roboto, Helvetica, Arial, sans-serif\" style=\"white-space:pre\">\n"
      "<metadata>{}</metadata>\n",
      width, height, number(width / data.FramebufferScale.x),
      number(height / data.FramebufferScale.y), escaped_xml(picture_comment()));
  if (!style.empty()) out += "<style>" + style + "</style>\n";
  SvgWriter(data, out).write();
  return out + "</svg>\n";
}

}  // namespace ringscope::viz
