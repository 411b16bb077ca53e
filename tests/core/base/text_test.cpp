#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/markdown.h"
#include "core/base/names.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

enum class Lacking { a, b };
constexpr auto names_of(Lacking) { return list_of({"a"}); }
enum class Named { a, b };
constexpr auto names_of(Named) { return list_of({"a", "b"}); }
enum class Spare { a };
constexpr auto names_of(Spare) { return list_of({"a", "b"}); }
static_assert(!names_every_value<Lacking>() && names_every_value<Named>() &&
              !names_every_value<Spare>());

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

}  // namespace
}  // namespace ringscope
