#include "core/base/text.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

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

}  // namespace
}  // namespace ringscope
