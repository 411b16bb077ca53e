// Writes ImGui's draw lists as SVG: shapes as paths, text as text in the font's family, textures as
// embedded PNG.
#include <fmt/format.h>

#include <map>
#include <string>

#include "core/base/text.h"
#include "viz/window/outlines.h"
#include "viz/window/pictures.h"
#include "viz/window/software_renderer.h"

namespace ringscope::viz {
namespace {

std::string fill_of(Color color) {
  const unsigned alpha = color >> 24;
  const std::string opacity =
      alpha == 255 ? "" : fmt::format(" fill-opacity=\"{}\"", short_number(alpha / 255.0));
  return fmt::format(" fill=\"#{:02x}{:02x}{:02x}\"{}", color & 255, color >> 8 & 255,
                     color >> 16 & 255, opacity);
}

std::string place_of(const Box& box) {
  return fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", short_number(box.x0),
                     short_number(box.y0), short_number(box.width()), short_number(box.height()));
}

class SvgWriter : public Outlines {
 public:
  explicit SvgWriter(std::string& out) : out_(out) {}
  void finish() {
    if (!clip_.empty()) out_ += "</g>\n";
  }

  void clip(const Box& to) override {
    const std::string place = place_of(to);
    if (place == clip_) return;
    finish();
    clip_ = place;
    const auto [known, is_new] = clips_.try_emplace(place, clips_.size());
    if (is_new)
      out_ +=
          fmt::format("<clipPath id=\"c{}\"><rect {}/></clipPath>\n", known->second, known->first);
    out_ += fmt::format("<g clip-path=\"url(#c{})\">\n", known->second);
  }

  void shape(Color color, const Loops& loops) override {
    out_ += fmt::format("<path{} d=\"", fill_of(color));
    for (const auto& loop : loops) {
      for (const ImVec2& at : loop)
        out_ += fmt::format("{}{} {}", &at == loop.data() ? 'M' : 'L', short_number(at.x),
                            short_number(at.y));
      out_ += 'Z';
    }
    out_ += "\"/>\n";
  }

  void text(const TextRun& run) override {
    out_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\"{}", short_number(run.begin),
                        short_number(run.baseline), short_number(run.size),
                        run.strong ? " font-weight=\"500\"" : "");
    if (run.glyphs > 1)
      out_ += fmt::format(" textLength=\"{}\"", short_number(run.end - run.begin));
    out_ += fmt::format("{}>{}</text>\n", fill_of(run.color), escaped_xml(run.text));
  }

  void picture(const Box& box, const Image& image) override {
    out_ +=
        fmt::format("<image {} preserveAspectRatio=\"none\" href=\"data:image/png;base64,{}\"/>\n",
                    place_of(box), base64(png_of(image)));
  }

 private:
  std::string& out_;
  std::map<std::string, std::size_t> clips_;
  std::string clip_;  // of the open group; "" if none is open
};

}  // namespace

std::string svg_of(const ImDrawData& data, const Sheet& sheet, const std::string& style) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}{}\" height=\"{}{}\" viewBox=\"{} {} {} "
      "{}\" font-family=\"Roboto, Helvetica, Arial, sans-serif\" style=\"white-space:pre\">\n"
      "<metadata>{}</metadata>\n",
      short_number(sheet.shown.width() * sheet.scale), sheet.unit,
      short_number(sheet.shown.height() * sheet.scale), sheet.unit, short_number(sheet.shown.x0),
      short_number(sheet.shown.y0), short_number(sheet.shown.width()),
      short_number(sheet.shown.height()), escaped_xml(picture_comment()));
  if (!style.empty()) out += "<style>" + style + "</style>\n";
  SvgWriter writer(out);
  trace_outlines(data, writer);
  writer.finish();
  return out + "</svg>\n";
}

std::string svg_of(const ImDrawData& data, int width, int height) {
  const ImVec2 scale = data.FramebufferScale;
  return svg_of(data, {{0, 0, width / scale.x, height / scale.y}, scale.x, ""}, "");
}

}  // namespace ringscope::viz
