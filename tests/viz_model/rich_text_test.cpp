#include "viz/model/session/rich_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ringscope::viz {
namespace {

// Blocks on lines of their own, marked by "- " where they are items; words with their style around
// them, joined by ' ' where a space stands before them and by '+' where none does.
std::string shown(std::string_view text) {
  std::string result;
  for (const RichBlock& block : rich_blocks(text)) {
    if (!result.empty()) result += '\n';
    if (block.item) result += "- ";
    for (const RichWord& word : block.words) {
      if (&word != block.words.data()) result += word.spaced ? ' ' : '+';
      const char* const marks[] = {"", "S", "E", word.joined ? "c" : "C"};
      const std::string mark = marks[static_cast<int>(word.style)];
      result += mark.empty() ? word.text : mark + "(" + word.text + ")";
    }
  }
  return result;
}

void expect_shown(const std::vector<std::pair<const char*, const char*>>& expected) {
  for (const auto& [text, words] : expected) EXPECT_EQ(shown(text), words) << text;
}

TEST(RichText, Words) {
  expect_shown({{"one two", "one two"},
                {"  one \t two\nthree\r\n", "one two three"},
                {"", ""},
                {" \n \n\t", ""}});
}

TEST(RichText, Blocks) {
  expect_shown(
      {{"a\nb\n\nc", "a b\nc"}, {"a\n- b\n  c\n- d\n\ne", "a\n- b c\n- d\ne"}, {"-a\n-", "-a -"}});
}

TEST(RichText, Styles) {
  expect_shown({{"a **b c** d", "a S(b) S(c) d"},
                {"*a*, b", "E(a)+, b"},
                {"see `x * y`.", "see C(x) c(*) c(y)+."},
                {"(**b**)", "(+S(b)+)"},
                {"`a``b`", "C(a)+C(b)"},
                {"**a\nb**", "S(a) S(b)"}});
}

TEST(RichText, MarksThatAreNone) {
  for (const char* text : {"2 * 3 * 4", "2*3*4", "a*b", "**", "*", "`", "``", "****", "* a*",
                           "**a *", "a_b_c", "*a**"})
    for (const RichBlock& block : rich_blocks(text))
      for (const RichWord& word : block.words) EXPECT_EQ(word.style, TextStyle::plain) << text;
  expect_shown({{"2 * 3", "2 * 3"}, {"`a", "`a"}, {"a ** b", "a ** b"}});
}

// Nothing but marks and spaces gets lost, and control characters.
TEST(RichText, AnyTextIsSomeText) {
  const std::string alphabet = "*`a \n-";
  for (int code = 0; code < 6 * 6 * 6 * 6 * 6; ++code) {
    std::string text;
    for (int rest = code, i = 0; i < 5; ++i, rest /= 6)
      text += alphabet[static_cast<std::size_t>(rest % 6)];
    std::size_t letters = 0;
    for (const RichBlock& block : rich_blocks(text)) {
      EXPECT_FALSE(block.words.empty());
      for (const RichWord& word : block.words) {
        EXPECT_FALSE(word.text.empty());
        for (const char c : word.text) letters += c == 'a';
        EXPECT_EQ(word.text.find_first_of(" \n"), std::string::npos) << text;
      }
    }
    EXPECT_EQ(letters, static_cast<std::size_t>(std::count(text.begin(), text.end(), 'a'))) << text;
  }
}

}  // namespace
}  // namespace ringscope::viz
