#include "core/problem/shape.h"
#include "tests/core/base/thrown.h"

#include <gtest/gtest.h>

#include <string>

namespace ringscope {
namespace shape_test {

std::string complaint(const AttentionShape& shape) {
  return input_error_of([&] { validate(shape); });
}

TEST(Shape, SizesOfAtLeastOne) {
  EXPECT_EQ(complaint({}), "");
  EXPECT_EQ(complaint({2, 8, 2, 1000, 64}), "");
  EXPECT_EQ(complaint({0, 1, 1, 1, 1}), "batch: 0 given, at least 1 accepted");
  EXPECT_EQ(complaint({1, -4, 1, 1, 1}), "heads: -4 given, at least 1 accepted");
  EXPECT_EQ(complaint({1, 1, 0, 1, 1}), "heads-kv: 0 given, at least 1 accepted");
  EXPECT_EQ(complaint({1, 1, 1, 0, 1}), "seqlen: 0 given, at least 1 accepted");
  EXPECT_EQ(complaint({1, 1, 1, 1, INT64_MIN}),
            "head-dim: -9223372036854775808 given, at least 1 accepted");
}

TEST(Shape, HeadsDivide) {
  for (Index heads = 1; heads <= 12; ++heads)
    for (Index heads_kv = 1; heads_kv <= 13; ++heads_kv) {
      const AttentionShape shape{1, heads, heads_kv, 1, 1};
      EXPECT_EQ(complaint(shape) == "", heads % heads_kv == 0) << heads << " " << heads_kv;
      if (heads % heads_kv == 0) {
        EXPECT_EQ(shape.group_size() * heads_kv, heads);
      }
    }
  EXPECT_EQ(complaint({1, 6, 4, 1, 1}), "heads-kv: 4 given, a divisor of heads (6) accepted");
}

TEST(Shape, NothingOverflows) {
  EXPECT_EQ(complaint({1, 1, 1, kMaxSeqlen, 1}), "");
  EXPECT_NE(complaint({1, 1, 1, kMaxSeqlen + 1, 1}), "");
  // 2^31 * 2^28 values of 8 bytes are 2^62 bytes; twice as many do not fit.
  EXPECT_EQ(complaint({1, 1, 1, kMaxSeqlen, Index{1} << 28}), "");
  expect_contains(complaint({1, 1, 1, kMaxSeqlen, Index{1} << 29}), "fit in 64 bits");
  EXPECT_NE(complaint({INT64_MAX, INT64_MAX, 1, kMaxSeqlen, INT64_MAX}), "");
  EXPECT_EQ(checked_product(0, INT64_MAX, "x"), 0);
  EXPECT_EQ(checked_product(1, INT64_MAX, "x"), INT64_MAX);
  EXPECT_THROW(checked_product(2, INT64_MAX, "x"), InputError);
  EXPECT_EQ(checked_values(2, 3, 5, 7), 210);
  EXPECT_THROW(checked_values(Index{1} << 16, Index{1} << 16, Index{1} << 16, Index{1} << 15),
               InputError);
}

}  // namespace shape_test
}  // namespace ringscope
