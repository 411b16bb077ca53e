// Draws numbers as SVG, in the viewer's dark colours, on a card that suits light and dark pages. A
// drawing is a list of strips along one scale, each of coloured parts: bars, stacked bars, grids of
// cells, timelines and rectangles are all made of these.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringscope::lessons {

// Return the number of columns that `text` takes: its characters in UTF-8.
inline std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

class Drawing {
 public:
  // Colours 0 to 7 are those of eight owners of K and V.
  static constexpr int kWrong = 7, kQuiet = 8;

  struct Part {
    double from, to;  // empty: not drawn
    int color;
    std::string text = "";  // left out where it doesn't fit
    double height = 0;      // in the unit of its width; 0: a line of text
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
  // Divide the length 1 evenly. cell(i) gives the colour, and a number to show or -1.
  template <class Cell>
  static std::vector<Part> cells(int count, const Cell& cell) {
    std::vector<Part> all;
    for (int i = 0; i < count; ++i) {
      const std::pair<int, int> its = cell(i);
      all.push_back({1.0 * i / count, (i + 1.0) / count, its.first,
                     its.second < 0 ? "" : std::to_string(its.second)});
    }
    return all;
  }

  void heading(const std::string& text) { strips_.push_back({text, {}, ""}); }
  // Add parts, with a name before and a text after them.
  void strip(const std::string& name, std::vector<Part> all, const std::string& after = "") {
    strips_.push_back({name, std::move(all), after});
  }
  // Add a heading and a bar for each value, in colour 0, 1 and so on, or all in `color`. The longest
  // is as wide as a part from 0 to 1.
  void bars(const std::string& text, const std::vector<std::string>& names,
            const std::vector<double>& values, int decimals, int color = -1) {
    heading(text);
    const double most = *std::max_element(values.begin(), values.end());
    for (std::size_t i = 0; i < values.size(); ++i)
      strip(names[i], {{0, values[i] / most, color < 0 ? static_cast<int>(i) : color}},
            fmt::format("{:.{}f}", values[i], decimals));
  }
  // Say at the bottom what a colour stands for.
  void key(int color, const std::string& text) { key_.push_back({0, 0, color, text}); }

  std::string svg(const std::string& title) const;

 private:
  struct Strip {
    std::string name;
    std::vector<Part> all;  // none: a heading
    std::string after;
  };

  std::vector<Strip> strips_;
  std::vector<Part> key_;
};

}  // namespace ringscope::lessons
