#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <utility>

#include "core/base/drawing.h"
#include "core/base/markdown.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

// The examples of RFC 4648, and every byte.
TEST(Text, Base64IsThatOfTheStandard) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) EXPECT_EQ(base64(bytes), text);
  EXPECT_EQ(base64(std::string("\x00\x10\x83\xfb\xff\xbf", 6)), "ABCD+/+/");
}

TEST(Text, FilledReplacesKeysEverywhereButInValues) {
  EXPECT_EQ(filled("{{a}} and {{b}}, {{a}}.", {{"a", "{{b}}"}, {"b", "{x}"}}),
            "{{b}} and {x}, {{b}}.");
  EXPECT_EQ(filled("${COMP[0]} {{none}}}", {{"a", "1"}}), "${COMP[0]} }");
  EXPECT_EQ(filled("", {}), "");
}

TEST(Text, SizesWithKMeanPowersOfTwo) {
  for (const auto& [text, size] : {std::pair{"8k", 8192},
                                   {"128k", 131072},
                                   {"131k", 131072},
                                   {"65k", 65536},
                                   {"262K", 262144},
                                   {"100k", 102400},
                                   {"1M", 1048576},
                                   {"7", 7},
                                   {"0k", 0}})
    EXPECT_EQ(parse_size(text), size) << text;
  for (const char* const text : {"", "k", "1.5k", "9999999999999999k", "9007199254740992k"})
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
}

// ---
// Marks that mean nothing are text, and no text gets lost. What marks mean is tested with the lessons.

TEST(Markdown, MarksThatAreNoneAreText) {
  for (const char* text : {"2 * 3 * 4", "2*3*4", "a*b", "**", "*", "`", "``", "****", "* a*",
                           "**a *", "a_b_c", "*a**", "`a", "a ** b"}) {
    std::string shown;
    for (const TextSpan& span : spans_of(text)) {
      EXPECT_EQ(span.kind, TextSpan::Kind::plain) << text;
      shown += span.text;
    }
    EXPECT_EQ(shown, text);
  }
}

std::size_t letters_in(const std::vector<TextBlock>& blocks) {
  std::size_t letters = 0;
  for (const TextBlock& block : blocks) {
    for (const TextSpan& span : spans_of(block.text))
      letters += static_cast<std::size_t>(std::count(span.text.begin(), span.text.end(), 'a'));
    letters += letters_in(block.inside);
  }
  return letters;
}

TEST(Markdown, NothingButMarksAndSpacesGetsLost) {
  const std::string alphabet = "*`a \n-";
  for (int code = 0; code < 6 * 6 * 6 * 6 * 6; ++code) {
    std::string text;
    for (int rest = code, i = 0; i < 5; ++i, rest /= 6)
      text += alphabet[static_cast<std::size_t>(rest % 6)];
    if (text.find("```") != text.npos) continue;  // the word behind it is a language
    EXPECT_EQ(letters_in(blocks_of(text)),
              static_cast<std::size_t>(std::count(text.begin(), text.end(), 'a')))
        << text;
  }
}

// ---

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
