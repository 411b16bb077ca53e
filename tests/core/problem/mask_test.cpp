// The mask as an interval per query, against the definition of each kind pair by pair.
#include "core/problem/mask.h"

#include <gtest/gtest.h>

#include "tests/core/problem/all_masks.h"

namespace ringscope {
namespace {

constexpr Index kSeqlens[] = {1, 2, 3, 4, 7, 12, 17};

TEST(Mask, AllowsWhatItsDefinitionAllows) {
  for (const Index seqlen : kSeqlens)
    for (const DefinedMask& defined : all_masks(seqlen)) {
      const BuiltMask built(defined);
      for (Index i = 0; i < seqlen; ++i)
        for (Index j = 0; j < seqlen; ++j)
          ASSERT_EQ((*built).allows(i, j), defined.allows(i, j))
              << defined.name() << ", query " << i << ", key " << j;
    }
}

TEST(Mask, IntervalsLieInsideTheSequenceHoldTheirQueryAndNeverGoBack) {
  for (const Index seqlen : kSeqlens)
    for (const DefinedMask& defined : all_masks(seqlen)) {
      const BuiltMask built(defined);
      Interval before;
      for (Index i = 0; i < seqlen; ++i) {
        const Interval keys = (*built).allowed_keys(i);
        ASSERT_GE(keys.first, 0) << defined.name() << ", query " << i;
        ASSERT_LE(keys.last, seqlen) << defined.name() << ", query " << i;
        ASSERT_TRUE(keys.contains(i)) << defined.name() << ", query " << i;
        ASSERT_GE(keys.first, before.first) << defined.name() << ", query " << i;
        ASSERT_GE(keys.last, before.last) << defined.name() << ", query " << i;
        before = keys;
      }
    }
}

TEST(Mask, DocumentsAreFoundByPosition) {
  const Index ends[] = {3, 4, 9};
  const Mask mask{.seqlen = 9, .document_ends = ends, .num_documents = 3};
  const Index expected[] = {0, 0, 0, 1, 2, 2, 2, 2, 2};
  for (Index i = 0; i < 9; ++i) EXPECT_EQ(mask.document_of(i), expected[i]) << "position " << i;
  EXPECT_EQ(mask.document(0), (Interval{0, 3}));
  EXPECT_EQ(mask.document(1), (Interval{3, 4}));
  EXPECT_EQ(mask.document(2), (Interval{4, 9}));
}

// The closed forms are usable where there is neither heap nor run time.
constexpr Index kEnds[] = {2, 6};
constexpr Mask kCausalWindow{.seqlen = 6, .causal = true, .window = 3};
constexpr Mask kPrefix{.seqlen = 6, .prefix = 4};
constexpr Mask kDocuments{.seqlen = 6, .document_ends = kEnds, .num_documents = 2};
static_assert(Mask{.seqlen = 6}.allowed_keys(3) == Interval{0, 6});
static_assert(Mask{.seqlen = 6, .causal = true}.allowed_keys(3) == Interval{0, 4});
static_assert(Mask{.seqlen = 6, .window = 2}.allowed_keys(3) == Interval{2, 5});
static_assert(kCausalWindow.allowed_keys(1) == Interval{0, 2});
static_assert(kCausalWindow.allowed_keys(5) == Interval{3, 6});
static_assert(kPrefix.allowed_keys(1) == Interval{0, 4});
static_assert(kPrefix.allowed_keys(5) == Interval{0, 6});
static_assert(kDocuments.allowed_keys(1) == Interval{0, 2});
static_assert(kDocuments.allowed_keys(2) == Interval{2, 6});
static_assert(kDocuments.allows(5, 2) && !kDocuments.allows(5, 1));

}  // namespace
}  // namespace ringscope
