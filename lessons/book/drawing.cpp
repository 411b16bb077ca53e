#include "lessons/book/drawing.h"

#include <limits>

#include "core/base/text.h"
#include "viz/data/timeline/palette.h"

namespace ringscope::lessons {
namespace {

// A phone shows a page's picture at about 350 pixels, so letters of 14 are 12 pixels high there.
constexpr double kWidth = 400, kMargin = 14, kHeight = 26, kGap = 8;

std::string html_of(viz::Color c) {
  return fmt::format("#{:02x}{:02x}{:02x}", c & 255, c >> 8 & 255, c >> 16 & 255);
}

const viz::Palette& palette() { return viz::palette_of(viz::Theme::dark); }

std::string html_of_part(int color) {
  return html_of(color == Drawing::kQuiet ? palette().of(Lane::other)
                                          : viz::owner_color(viz::Theme::dark, color, 8));
}

double width_of(const std::string& text) {
  return text.empty() ? 0 : 7.4 * static_cast<double>(columns_of(text)) + kGap;
}

std::string box(double x, double y, double width, double height, int color) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"3\" "
      "fill=\"{}\"/>\n",
      x, y, width, height, html_of_part(color));
}

std::string words(double x, double y, const std::string& style, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y + 17, style, text);
}

}  // namespace

std::string Drawing::svg(const std::string& title) const {
  const std::string soft = fmt::format("fill=\"{}\"", html_of(palette().text_dim));
  double left = kMargin, unit = std::numeric_limits<double>::infinity(), y = kMargin;
  for (const Strip& strip : strips_)
    if (!strip.all.empty()) left = std::max(left, kMargin + width_of(strip.name));
  for (const Strip& strip : strips_)
    for (const Part& part : strip.all)
      unit = std::min(unit, (kWidth - kMargin - left - width_of(strip.after)) / part.to);
  std::string body;
  for (const Strip& strip : strips_) {
    if (strip.all.empty() && y > kMargin) y += kGap;
    body += words(kMargin, y, strip.all.empty() ? "font-weight=\"600\"" : soft, strip.name);
    double end = left, height = kHeight;
    for (const Part& part : strip.all) {
      const double x = left + unit * part.from, width = unit * (part.to - part.from) - 1.5;
      const double high = part.height > 0 ? unit * part.height : kHeight - 1.5;
      if (part.to > part.from)
        body += box(x, y + 1, std::max(width, 2.0), std::max(high - 1.5, 2.0), part.color);
      if (!part.text.empty() && width_of(part.text) <= width + kGap)
        body += words(
            x + width / 2, y + (high - kHeight) / 2,
            "text-anchor=\"middle\"" +
                (part.color == kQuiet ? ""
                                      : fmt::format(" fill=\"{}\"", html_of(palette().background))),
            part.text);
      end = std::max(end, left + unit * part.to);
      height = std::max(height, high + 1.5);
    }
    if (!strip.after.empty()) body += words(end + kGap - 1.5, y, "", strip.after);
    y += height;
  }
  double x = kMargin;
  if (!key_.empty()) y += kGap;
  for (const Part& entry : key_) {
    const double width = 26 + width_of(entry.text);
    if (x > kMargin && x + width > kWidth) x = kMargin, y += kHeight;
    body += box(x, y + 5, 14, 14, entry.color) + words(x + 20, y, soft, entry.text);
    x += width;
  }
  if (!key_.empty()) y += kHeight;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{2}\" "
      "height=\"{3:.0f}\" font-family=\"Roboto, Helvetica, Arial, sans-serif\" font-size=\"14\" "
      "fill=\"{4}\">\n<title>{5}</title>\n"
      "<rect width=\"{0}\" height=\"{1:.0f}\" rx=\"7\" fill=\"{6}\"/>\n{7}</svg>\n",
      kWidth, y + kMargin - 2, 1.4 * kWidth, 1.4 * (y + kMargin - 2), html_of(palette().text),
      title, html_of(palette().panel), body);
}

}  // namespace ringscope::lessons
