#include "core/base/drawing.h"

#include <gtest/gtest.h>

#include <regex>

namespace ringscope {
namespace {

// Return what group 1 of `pattern` matches, again and again.
std::vector<std::string> all_of(const std::string& svg, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator match(svg.begin(), svg.end(), regex), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

TEST(Drawing, PartsAreAsLongAsTheirNumbersAndTextsAreOnlyWhereTheyFit) {
  Drawing drawing;
  drawing.heading("Head");
  drawing.strip("", {{0, 60, 0, "wide"}, {60, 60, 1, "empty"}, {60, 62, 2, "too long"}}, "62");
  drawing.strip("", Drawing::stacked({10, 20}, 0.5));
  drawing.strip("", Drawing::cells(2, [](int i) { return std::pair(i, 1 - 2 * i); }));
  drawing.bars("Bars", {"a"}, {4}, 1);
  drawing.key(Drawing::kQuiet, "quiet");
  const std::string svg = drawing.svg("A title");
  EXPECT_EQ(all_of(svg, ">([^<>]+)</t"), (std::vector<std::string>{"A title", "Head", "wide", "62",
                                                                   "Bars", "a", "4.0", "quiet"}));
  std::vector<double> widths;
  for (const std::string& width : all_of(svg, " width=\"([0-9.]+)\" height=\"23.0\""))
    widths.push_back(std::stod(width) + 1.5);
  ASSERT_EQ(widths.size(), 7u);
  EXPECT_NEAR(widths[0] / widths[1], 30, 1);
  EXPECT_NEAR(widths[2] / widths[0], 20.0 / 60, 0.01);
  EXPECT_NEAR(widths[3] / widths[0], 40.0 / 60, 0.01);
  EXPECT_EQ(widths[4], widths[5]);
  EXPECT_EQ(all_of(svg, "fill=\"#3a4351\"()").size(), 1u);
}

}  // namespace
}  // namespace ringscope
