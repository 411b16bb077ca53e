#include "core/base/text.h"

#include <gtest/gtest.h>

namespace ringscope {
namespace {

TEST(Text, FilledReplacesKeysEverywhereButInValues) {
  EXPECT_EQ(filled("{{a}} and {{b}}, {{a}}.", {{"a", "{{b}}"}, {"b", "{x}"}}),
            "{{b}} and {x}, {{b}}.");
  EXPECT_EQ(filled("${COMP[0]} {{none}}}", {{"a", "1"}}), "${COMP[0]} }");
  EXPECT_EQ(filled("", {}), "");
}

}  // namespace
}  // namespace ringscope
