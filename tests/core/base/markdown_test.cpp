// Marks that mean nothing are text, and no text gets lost. What marks mean is tested with the lessons.
#include "core/base/markdown.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ringscope {
namespace {

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

}  // namespace
}  // namespace ringscope
