#include "core/base/text.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace ringscope {
namespace {

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
