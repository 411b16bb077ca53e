// Draws numbers as SVG. A drawing is a list of strips along one scale, each of coloured parts: bars,
// stacked bars, grids of cells and timelines are all made of these.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ringscope {

class Drawing {
 public:
  // The first eight are those of the owners of K and V in the dark viewer. The card is as dark as the
  // viewer's pictures, so that it suits light and dark pages.
  static constexpr const char* kColors[] = {"#9bb0ef", "#d78f24", "#3ead8b", "#8f7de3", "#c8cb61",
                                            "#92678b", "#06debb", "#c35a24", "#3a4351"};
  static constexpr int kWrong = 7, kQuiet = 8;

  struct Part {
    double from, to;        // empty: not drawn
    int color;              // index into kColors
    std::string text = "";  // left out where it doesn't fit
  };
  // Return parts of lengths[i] / whole with colour i, one after another.
  static std::vector<Part> stacked(const std::vector<double>& lengths, double whole = 1) {
    std::vector<Part> all;
    for (double end = 0; const double length : lengths) {
      all.push_back({end, end + length / whole, static_cast<int>(all.size())});
      end = all.back().to;
    }
    return all;
  }
  // Return `count` parts of length 1. cell(i) gives the colour, and a number to show or -1.
  template <class Cell>
  static std::vector<Part> cells(int count, const Cell& cell) {
    std::vector<Part> all;
    for (int i = 0; i < count; ++i) {
      const std::pair<int, int> its = cell(i);
      all.push_back(
          {1.0 * i, i + 1.0, its.first, its.second < 0 ? "" : std::to_string(its.second)});
    }
    return all;
  }

  void heading(const std::string& text) { strips_.push_back({text, {}, ""}); }
  // Add parts, with a name before and a text after them.
  void strip(const std::string& name, std::vector<Part> all, const std::string& after = "") {
    strips_.push_back({name, std::move(all), after});
  }
  // Add a heading and a bar for each value. The longest is as wide as a part from 0 to 1.
  void bars(const std::string& text, const std::vector<std::string>& names,
            const std::vector<double>& values, int decimals) {
    heading(text);
    const double most = *std::max_element(values.begin(), values.end());
    for (std::size_t i = 0; i < values.size(); ++i)
      strip(names[i], {{0, values[i] / most, static_cast<int>(i)}},
            fmt::format("{:.{}f}", values[i], decimals));
  }
  // Say at the bottom what a colour stands for.
  void key(int color, const std::string& text) { key_.push_back({0, 0, color, text}); }

  std::string svg(const std::string& title) const {
    double left = kMargin, unit = std::numeric_limits<double>::infinity(), y = kMargin;
    for (const Strip& strip : strips_)
      if (!strip.all.empty()) left = std::max(left, kMargin + width_of(strip.name));
    for (const Strip& strip : strips_)
      for (const Part& part : strip.all)
        unit = std::min(unit, (kWidth - kMargin - left - width_of(strip.after)) / part.to);
    std::string body;
    for (const Strip& strip : strips_) {
      if (strip.all.empty() && y > kMargin) y += kGap;
      body += words(kMargin, y, strip.all.empty() ? "font-weight=\"600\"" : kSoft, strip.name);
      double end = left;
      for (const Part& part : strip.all) {
        const double x = left + unit * part.from, width = unit * (part.to - part.from) - 1.5;
        if (width > 0) body += box(x, y + 1, width, kHeight - 3, part.color);
        if (!part.text.empty() && width_of(part.text) <= width + kGap)
          body += words(x + width / 2, y,
                        part.color == kQuiet ? "text-anchor=\"middle\""
                                             : "text-anchor=\"middle\" fill=\"#11151c\"",
                        part.text);
        end = std::max(end, left + unit * part.to);
      }
      if (!strip.after.empty()) body += words(end + kGap - 1.5, y, "", strip.after);
      y += kHeight;
    }
    double x = kMargin;
    if (!key_.empty()) y += kGap;
    for (const Part& entry : key_) {
      const double width = 26 + width_of(entry.text);
      if (x > kMargin && x + width > kWidth) x = kMargin, y += kHeight;
      body += box(x, y + 5, 14, 14, entry.color) + words(x + 20, y, kSoft, entry.text);
      x += width;
    }
    if (!key_.empty()) y += kHeight;
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{2}\" "
        "height=\"{3:.0f}\" font-family=\"Roboto, Helvetica, Arial, sans-serif\" font-size=\"14\" "
        "fill=\"#e3e8ef\">\n<title>{4}</title>\n"
        "<rect width=\"{0}\" height=\"{1}\" rx=\"7\" fill=\"#171c25\"/>\n{5}</svg>\n",
        kWidth, y + kMargin - 2, 1.4 * kWidth, 1.4 * (y + kMargin - 2), title, body);
  }

 private:
  // A phone shows a page's picture at about 350 pixels, so letters of 14 are 12 pixels high there.
  static constexpr double kWidth = 400, kMargin = 14, kHeight = 26, kGap = 8;
  static constexpr const char* kSoft = "fill=\"#a9b4c2\"";

  struct Strip {
    std::string name;
    std::vector<Part> all;  // none: a heading
    std::string after;
  };

  static double width_of(const std::string& text) {
    const auto letters = std::count_if(text.begin(), text.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // of UTF-8
    });
    return letters == 0 ? 0 : 7.4 * static_cast<double>(letters) + kGap;
  }
  static std::string box(double x, double y, double width, double height, int color) {
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"3\" "
        "fill=\"{}\"/>\n",
        x, y, width, height, kColors[color]);
  }
  static std::string words(double x, double y, const char* style, const std::string& text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y + 17, style, text);
  }

  std::vector<Strip> strips_;
  std::vector<Part> key_;
};

}  // namespace ringscope
