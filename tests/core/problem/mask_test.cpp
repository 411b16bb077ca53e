// Masks: as people spell them, and what they allow.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/problem/mask.h"
#include "tests/core/base/thrown.h"
#include "tests/core/problem/all_masks.h"
#include "tests/temporary_folder.h"

namespace ringscope {
namespace {

TEST(MaskSpec, NoMaskIsFull) { EXPECT_EQ(MaskSpec().name(), "full"); }

TEST(MaskSpec, NameIsCanonicalAndReadsBack) {
  const std::pair<const char*, const char*> cases[] = {
      {"full", "full"},
      {"full+causal", "causal"},
      {"window:5+causal", "causal+window:5"},
      {"prefix:0", "prefix:0"},
      {"documents:100,28+causal", "causal+documents:100,28"},
      {"documents:1+window:2+prefix:3+causal+full", "causal+prefix:3+window:2+documents:1"},
      {"sink:3+documents:9+window:2", "window:2+sink:3+documents:9"},
      {"sink:0+window:2", "window:2+sink:0"},
  };
  for (const auto& [given, canonical] : cases) {
    EXPECT_EQ(MaskSpec::parse(given).name(), canonical);
    EXPECT_EQ(MaskSpec::parse(canonical).name(), canonical);
  }
}

// Positions are added to windows and prefixes: the largest ones must not overflow.
TEST(MaskSpec, HugeWindowAndPrefixAllowAll) {
  for (const std::string text : {"window:9223372036854775807", "prefix:9223372036854775807"}) {
    const MaskSpec spec = MaskSpec::parse(text);
    for (Index i = 0; i < 5; ++i)
      EXPECT_EQ(spec.for_seqlen(5).allowed_keys(i), (Interval{0, 5})) << text;
    EXPECT_EQ(spec.name(), text);
  }
}

TEST(MaskSpec, RefusesWhatItDoesNotKnow) {
  const char* const cases =
      "|+|causal+|+causal|Causal|causal |triangle|full:1|causal:2|window|window:|window:0|"
      "window:-1|window:3x|window:1.5|window: 3|window:+3|prefix|prefix:-1|prefix:x|sink|"
      "sink:|sink:2|causal+sink:2|window:3+sink:-1|window:3+sink:x|"
      "window:3+sink:9223372036854775808|ranges|ranges:|documents|documents:|documents:,|"
      "documents:3,|documents:3,,4|documents:0,3|documents:-1,4|causal+causal|"
      "window:3+window:4|window:9223372036854775808|documents:9223372036854775807,1";
  for (const std::string_view text : split(cases, '|')) {
    SCOPED_TRACE(text);
    expect_contains(input_error_of([&] { MaskSpec::parse(text); }), "accepted: ");
  }
}

TEST(MaskSpec, RefusesDocumentsThatDoNotSumUp) {
  const MaskSpec spec = MaskSpec::parse("causal+documents:100,28");
  EXPECT_NO_THROW(spec.for_seqlen(128));
  for (const Index seqlen : {1, 100, 127, 129}) EXPECT_THROW(spec.for_seqlen(seqlen), InputError);
}

// A file of slices, and what is wrong with it.
TEST(MaskSpec, SlicesOfAFile) {
  const std::string accepted = "; accepted: q0 q1 k0 k1 full|causal|inverse";
  const std::pair<const char*, std::string> cases[] = {
      {"0 4 0 4 causal\n4 9 0 9 full # the rest\n\n", ""},
      {"0 4 0 4 full\n0 4 4 8 inverse", ""},
      {"", ": no slice found"},
      {"# nothing\n", ": no slice found"},
      {"0 4 0 4", ", line 1: '0 4 0 4' given" + accepted},
      {"\n0 4 0 4 half", ", line 2: '0 4 0 4 half' given" + accepted},
      {"0 4 0 4 full 5", ", line 1: '0 4 0 4 full 5' given" + accepted},
      {"0 4 4 4 full", ", line 1: '0 4 4 4 full' given" + accepted},
      {"4 4 0 4 full", ", line 1: '4 4 0 4 full' given" + accepted},
      {"4 0 0 4 full", ", line 1: '4 0 0 4 full' given" + accepted},
      {"-1 4 0 4 full", ", line 1: '-1 4 0 4 full' given" + accepted},
      {"0 9223372036854775808 0 4 full", ", line 1: '0 9223372036854775808 0 4 full' given"},
      {"0 4 0 4.5 full", ", line 1: '0 4 0 4.5 full' given" + accepted},
      {"0 4 0 4 full\xff", ", line 1: '0 4 0 4 full?' given" + accepted},
      {"0 4 0 4 full\n3 5 3 5 full", ", lines 1 and 2: slices that overlap given"},
      {"0 9 5 6 full\n1 2 0 2 full\n1 2 2 9 full", ", lines 1 and 3: slices that overlap given"},
      {"0 9 0 9 causal\n4 5 4 5 causal", ", lines 1 and 2: slices that overlap given"},
  };
  const TemporaryFolder folder;
  const std::string path = folder.path("slices");
  for (const auto& [text, wrong] : cases) {
    SCOPED_TRACE(text);
    std::ofstream(path) << text;
    const std::string found = input_error_of([&] { MaskSpec::parse("causal+ranges:" + path); });
    EXPECT_EQ(found.substr(0, wrong.empty() ? std::string::npos : (path + wrong).size()),
              wrong.empty() ? "" : path + wrong);
  }
  std::ofstream(path) << "0 4 0 9223372036854775807 causal";
  const MaskSpec outside = MaskSpec::parse("ranges:" + path);
  EXPECT_EQ(input_error_of([&] { outside.for_seqlen(9); }),
            "slice '0 4 0 9223372036854775807 causal' given; accepted: slices within seqlen (9)");
  EXPECT_NE(input_error_of([&] { MaskSpec::parse("ranges:" + path + "_absent"); }), "");
  // A path may have a + in it.
  const std::string joined = path + "+1+x:y+";
  std::ofstream(joined) << "0 4 0 4 full";
  for (const std::string text : {"causal+ranges:" + joined, "ranges:" + joined + "+causal"})
    EXPECT_EQ(MaskSpec::parse(text).name(), "causal+ranges:" + joined);
  EXPECT_EQ(mask_parts("ranges:" + joined + "+window:3+sink:1"),
            (std::vector<std::string_view>{"ranges:" + joined, "window:3", "sink:1"}));
  // A recording brings its slices along, and names no file that is opened.
  const MaskSpec recorded = MaskSpec::recorded("ranges:" + path, {0, 2, 0, 3, 2});
  EXPECT_EQ(recorded.name(), "ranges:" + path);
  EXPECT_FALSE(recorded.for_seqlen(3).allows(1, 0));
  EXPECT_TRUE(recorded.for_seqlen(3).allows(1, 1));
  const std::vector<Index> impossible[] = {
      {}, {0, 2, 0, 3}, {0, 2, 0, 3, 3}, {0, 2, 0, 3, -1}, {2, 2, 0, 3, 0}, {-1, 2, 0, 3, 0}};
  for (const std::vector<Index>& numbers : impossible)
    EXPECT_THROW(MaskSpec::recorded("ranges:x", numbers), InputError);
}

// ---
// The mask as an interval per query, against the definition of each kind pair by pair.

constexpr Index kSeqlens[] = {1, 2, 3, 4, 7, 12, 17};

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
constexpr Mask kDocuments{.seqlen = 6, .document_ends = kEnds, .num_documents = 2};
static_assert(kCausalWindow.allowed_keys(5) == Interval{3, 6});
static_assert(kDocuments.allows(5, 2) && !kDocuments.allows(5, 1));

}  // namespace
}  // namespace ringscope
