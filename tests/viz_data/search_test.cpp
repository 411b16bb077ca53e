// Search against brute force and known answers; flows along a ring.
#include "viz/data/session/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"

namespace ringscope::viz {
namespace {

// Two ranks, one hop: rank 0 is done with its own block when the other one comes.
Trace small() {
  return HandMade(2)
      .compute(0, 0, 0, 1000)
      .hop(1, 0, 100, 2500)
      .wait(0, 1, 1000, 2500)
      .compute(0, 1, 2600, 3000)
      .compute(1, 0, 0, 2000)
      .hop(0, 0, 100, 600)
      .compute(1, 1, 2000, 5000)
      .trace();
}

std::size_t count(const Trace& trace, std::string_view words) {
  const SearchResult result = search(trace, words);
  EXPECT_EQ(result.complaint, "") << words;
  EXPECT_EQ(result.total, result.slices.size()) << words;
  return result.total;
}

void expect_counts(const Trace& trace,
                   const std::vector<std::pair<const char*, std::size_t>>& expected) {
  for (const auto& [words, found] : expected) EXPECT_EQ(count(trace, words), found) << words;
}

TEST(Search, FieldsMeanWhatTheySay) {
  const Trace trace = small();
  expect_counts(trace, {{"kind:compute", 4},
                        {"kind:wait", 1},
                        {"rank:0", 5},
                        {"rank:0 kind:compute", 2},
                        {"step:1", 3},
                        {"step:1 owner:0", 1},
                        {"for:1", 1},
                        {"for:0", 0},
                        {"peer:1", 3},
                        {"pass:backward", 0},
                        {"pass:forward", trace.slice_count}});
}

TEST(Search, DurationsHaveUnits) {
  expect_counts(small(), {{"longer:1999", 4},
                          {"longer:2000ns", 3},
                          {"longer:2us", 3},
                          {"longer:0.0025ms", 1},
                          {"longer:1s", 0},
                          {"longer:400 shorter:1.1us kind:compute", 1}});
}

TEST(Search, NumbersAndTimesCompare) {
  expect_counts(small(), {{"dur>1999", 4},
                          {"dur > 2us", 3},
                          {"dur>=2us", 4},
                          {"dur < 401ns kind:compute", 1},
                          {"dur<= 400 kind:compute", 1},
                          {"dur=400", 1},
                          {"step>0 kind:compute", 2},
                          {"step!=0 kind:compute", 2},
                          {"bytes >= 100", 4},
                          {"begin>=2us", 2},
                          {"pairs:1 rank=0", 2}});
}

TEST(Search, WordsAreJoinedByOrAndTurnedByNot) {
  const Trace trace = small();
  expect_counts(trace, {{"kind:wait or kind:compute", 5},
                        {"not kind:compute", trace.slice_count - 4},
                        {"not not kind:compute", 4},
                        {"rank:0 kind:wait or rank:1 kind:compute", 3},
                        {"kind:compute not rank:0 not step:0", 1},
                        {"kind:wait or", 1},
                        {"or not", 0}});
}

// Only fields compare. In a name, such signs are what they are.
TEST(Search, NamesMayHaveSigns) {
  Trace trace = small();
  for (std::string& name : trace.names)
    if (name.starts_with("attend")) name = "add<float> a=b";
  expect_counts(trace, {{"add<float>", 4}, {"<float> rank:1", 2}, {"a=b", 4}, {"a=c", 0}});
}

TEST(Search, NamesByPartsAndInAnyCase) {
  Trace trace = small();
  for (std::string& name : trace.names)
    if (name.starts_with("attend")) name = "Attend::KV block";
  expect_counts(trace, {{"attend", 4},
                        {"KV BLOCK", 4},
                        {"attend::kv", 4},
                        {"block rank:1", 2},
                        {"block wait", 0},
                        {"nothing-like-it", 0}});
}

TEST(Search, AllWordsMustHold) {
  expect_counts(small(), {{"kind:compute kind:wait", 0},
                          {"step:0 step:1", 0},
                          {"rank:0 rank:1", 0},
                          {"rank:7", 0},
                          {"pass:forward pass:backward", 0}});
}

TEST(Search, NoWordsFindNothing) {
  for (const char* words : {"", "   ", "\t"}) EXPECT_EQ(count(small(), words), 0u);
  EXPECT_EQ(count(Trace{}, "wait"), 0u);
}

TEST(Search, SaysWhatItDoesNotUnderstand) {
  for (const char* words :
       {"step:", "step:one", "step:1x", "rank:99999999999999999999", "owner:1.5", "kind:walk",
        "kind:", "dur>", "dur>1h", "step>=x", "longer:", "longer:1h", "longer:nan", "longer:inf",
        "shorter:-1ms", "pass:sideways", "colour:red", "for:", "rank:0 bogus:1"}) {
    const SearchResult result = search(small(), words);
    EXPECT_NE(result.complaint, "") << words;
    EXPECT_TRUE(result.slices.empty()) << words;
  }
}

TEST(Search, HitsComeByBeginAndUpToTheLimit) {
  Trace trace = crowded(3, 400, 11);
  const SearchResult all = search(trace, "shorter:1s");
  ASSERT_EQ(all.total, trace.slice_count);
  for (std::size_t i = 1; i < all.slices.size(); ++i)
    EXPECT_LE(trace.slice(all.slices[i - 1]).begin_ns, trace.slice(all.slices[i]).begin_ns);
  const SearchResult some = search(trace, "shorter:1s", 17);
  EXPECT_EQ(some.total, trace.slice_count);
  ASSERT_EQ(some.slices.size(), 17u);
  EXPECT_TRUE(std::equal(some.slices.begin(), some.slices.end(), all.slices.begin()));
}

TEST(Search, AgreesWithTryingEverySlice) {
  const Trace trace = crowded(4, 300, 12);
  std::size_t expected = 0;
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row)
    for (const TraceEvent& s : trace.slices(row))
      expected += trace.rank_of_row(row) == 2 && s.step == 1 && s.duration_ns() > 20;
  ASSERT_GT(expected, 0u);
  EXPECT_EQ(count(trace, "rank:2 step:1 longer:20"), expected);
}

TEST(Flows, LeadFromASendToWhatIsComputedWithTheBlock) {
  const Trace trace = small();
  SliceId id{1, 0};  // rank 0 sends its block
  ASSERT_TRUE(follow_flow(trace, id, true));
  EXPECT_EQ(trace.slice(id).lane, Lane::recv);
  EXPECT_EQ(trace.rank_of_row(id.row), 1);
  ASSERT_TRUE(follow_flow(trace, id, true));
  EXPECT_EQ(id, (SliceId{4, 1}));
  EXPECT_FALSE(follow_flow(trace, id, true));  // the last step passes nothing on
  ASSERT_TRUE(follow_flow(trace, id, false));
  ASSERT_TRUE(follow_flow(trace, id, false));
  EXPECT_EQ(id, (SliceId{1, 0}));
  ASSERT_TRUE(follow_flow(trace, id, false));  // before it was sent, rank 0 computed with it
  EXPECT_EQ(id, (SliceId{0, 0}));
  EXPECT_FALSE(follow_flow(trace, id, false));
}

TEST(Flows, AWaitIsForWhatWasReceived) {
  const Trace trace = small();
  SliceId id{3, 0};
  ASSERT_TRUE(follow_flow(trace, id, false));
  EXPECT_EQ(trace.slice(id).lane, Lane::recv);
  id = {3, 0};
  ASSERT_TRUE(follow_flow(trace, id, true));
  EXPECT_EQ(id, (SliceId{0, 1}));
}

TEST(Flows, FollowABlockAroundTheWholeRing) {
  const int world_size = 5;
  const Trace trace = trace_of(record_run(PartitionKind::zigzag, "causal", scheme_named("ring"),
                                          world_size, /*backward=*/false));
  for (int rank = 0; rank < world_size; ++rank) {
    SliceId id{trace.row_of(rank, Lane::compute), 0};
    int slices = 1;
    while (follow_flow(trace, id, true)) {
      EXPECT_EQ(trace.slice(id).kv_owner, rank);
      ASSERT_LT(++slices, 100);
    }
    EXPECT_EQ(slices, 1 + 3 * (world_size - 1));  // send, recv and compute a hop
    EXPECT_EQ(trace.slice(id).step, world_size - 1);
    while (follow_flow(trace, id, false)) --slices;
    EXPECT_EQ(slices, 1);
    EXPECT_EQ(id, (SliceId{trace.row_of(rank, Lane::compute), 0}));
  }
}

TEST(Flows, OfATraceThatIsNotOursAreItsOwnOnly) {
  Trace trace = small();
  trace.is_ring = false;
  SliceId id{1, 0};
  EXPECT_TRUE(follow_flow(trace, id, true));
  EXPECT_FALSE(follow_flow(trace, id, true));
  EXPECT_TRUE(follow_flow(trace, id, false));
  EXPECT_FALSE(follow_flow(trace, id, false));
}

}  // namespace
}  // namespace ringscope::viz
