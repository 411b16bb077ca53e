// What is selected, against counting by hand: which slices, their spreads, CSV; and the command of a view.
#include "viz/data/session/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"
#include "viz/data/session/search.h"

namespace ringscope::viz {
namespace {

// Rank 0 computes for 100 and 30 ns and waits between; rank 1 computes for 200 and 70 ns.
Session timed_session() {
  return session_of(HandMade(2)
                        .compute(0, 0, 1000, 1100)
                        .hop(1, 0, {1010, 1190}, {1010, 1200}, 4096)
                        .wait(0, 1, 1100, 1200)
                        .compute(0, 1, 1200, 1230)
                        .compute(1, 0, 1000, 1200)
                        .compute(1, 1, 1200, 1270)
                        .trace());
}

TEST(Selection, IsWhatIsFoundOrMeasuredOrOfTheRank) {
  Session session = timed_session();
  EXPECT_EQ(selection_of(session).slices.size(), session.document().trace.slice_count);
  session.select_rank(1);
  EXPECT_EQ(selection_of(session).slices.size(), 3u);
  EXPECT_NE(selection_of(session).words.find("1"), std::string::npos);
  session.measure = Measure{280, 190};  // whichever comes first; what lies in it in part counts
  EXPECT_EQ(selection_of(session).slices.size(), 2u);
  session.set_search("kind:compute");
  const Selection found = selection_of(session);
  EXPECT_EQ(found.slices.size(), 4u);
  EXPECT_EQ(found.words, "kind:compute");
}

// Of slices that lie in part within what is measured, that part counts; a drag says of which ranks.
TEST(Selection, AMeasureAddsUpTheKindsOfItsRanks) {
  using Times = std::array<std::int64_t, kLaneKinds>;
  Session session = timed_session();
  EXPECT_EQ(measured_times(session), Times{});
  for (const auto& [measure, times, slices] :
       {std::tuple(Measure{0, 270}, Times{400, 180, 190, 100}, 7),
        {Measure{210, 150}, Times{70, 40, 50, 50}, 6},
        {Measure{0, 270, {0}}, Times{130, 0, 190, 100}, 4},
        {Measure{0, 100, {1}}, Times{100, 90, 0, 0}, 2}}) {
    session.measure = measure;
    EXPECT_EQ(measured_times(session), times) << measure.to;
    EXPECT_EQ(selection_of(session).slices.size(), slices) << measure.to;
  }
  session.select_rank(0);
  EXPECT_NE(selection_of(session).words.find("rank 1"), std::string::npos);
}

// What the drag says of a span, the table says too: on both axes, of some ranks and of all.
TEST(Selection, TheTableAddsUpWhatTheDragDoes) {
  Session session = session_of(simulated_trace(simulated_scenario(4)));
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    session.set_axis_mode(mode);
    for (const double from : {0.0, 0.13, 0.5})
      for (const double to : {0.14, 0.77, 1.0})
        for (const std::vector<int>& ranks : {std::vector<int>{}, {1, 3}}) {
          session.measure = Measure{from * session.length(), to * session.length(), ranks};
          std::array<std::int64_t, kLaneKinds> listed{};
          const Trace& trace = session.document().trace;
          for (const Spread& spread : spreads_of(trace, selection_of(session), SliceOrder::kind))
            for (std::size_t kind = 0; kind < listed.size(); ++kind)
              if (spread.name == name_of(static_cast<Lane>(kind))) listed[kind] = spread.sum_ns;
          EXPECT_EQ(listed, measured_times(session)) << from << " to " << to;
        }
  }
}

// Every slice is in one bin, bins follow one another, and those of a bin are found again.
TEST(Selection, DurationsAreCountedInBins) {
  Session session = timed_session();
  const Trace& trace = session.document().trace;
  const std::vector<SliceId> all = selection_of(session).slices;
  EXPECT_TRUE(durations_of(trace, {}).empty());
  for (const int wanted : {1, 2, 7, 1000}) {
    const std::vector<DurationBin> bins = durations_of(trace, all, wanted);
    EXPECT_LE(bins.size(), static_cast<std::size_t>(wanted));
    std::array<std::size_t, kLaneKinds> counted{};
    std::int64_t end = 30;  // the shortest
    for (const DurationBin& bin : bins) {
      EXPECT_EQ(bin.from_ns, end);
      end = bin.to_ns;
      for (std::size_t k = 0; k < counted.size(); ++k) {
        const auto found = slices_in(trace, all, static_cast<Lane>(k), bin);
        EXPECT_EQ(static_cast<std::int64_t>(found.size()), bin.counts[k]);
        counted[k] += found.size();
      }
    }
    EXPECT_EQ(end, 201);
    EXPECT_EQ(counted, (std::array<std::size_t, kLaneKinds>{4, 1, 1, 1}));
  }
}

TEST(Selection, SpreadsAreOfKindsRanksAndSteps) {
  Session session = timed_session();
  session.set_search("kind:compute");
  const Trace& trace = session.document().trace;
  const Selection slices = selection_of(session);
  const auto by_rank = spreads_of(trace, slices, SliceOrder::rank);
  ASSERT_EQ(by_rank.size(), 3u);
  EXPECT_EQ(by_rank[0].sum_ns, 130);
  EXPECT_EQ(by_rank[1].median_ns, 135);
  EXPECT_EQ(by_rank[1].most_last_ns, 200);
  const auto& all = by_rank[2];
  EXPECT_EQ(std::tuple(all.name, all.count, all.sum_ns, all.median_ns, all.most_ns),
            std::tuple("all", 4, 400, 85, 200));
  const auto by_step = spreads_of(trace, slices, SliceOrder::step);
  ASSERT_EQ(by_step.size(), 3u);
  EXPECT_EQ(by_step[1].name, "step 1");
  EXPECT_EQ(by_step[1].sum_ns, 100);
  session.set_search("");
  const auto by_kind = spreads_of(trace, selection_of(session), SliceOrder::kind);
  ASSERT_EQ(by_kind.size(), 5u);
  EXPECT_EQ(by_kind[0].name, "compute");
  EXPECT_EQ(by_kind[3].name, "wait");
  EXPECT_EQ(by_kind[3].sum_ns, 100);
  EXPECT_TRUE(spreads_of(trace, {}, SliceOrder::kind).empty());
}

// Of ten slices of 1 to 10 ns, nine last no longer than 9 ns.
TEST(Selection, SpreadsAreOfOwnersAndGoToOtherPrograms) {
  HandMade made(2);
  for (int i = 0; i < 10; ++i) made.compute(0, i % 2, 100 * i, 100 * i + i + 1);
  const Session session = session_of(made.trace());
  const auto spreads =
      spreads_of(session.document().trace, selection_of(session), SliceOrder::owner);
  ASSERT_EQ(spreads.size(), 3u);
  EXPECT_EQ(spreads[2].most_last_ns, 9);
  EXPECT_EQ(csv_of(spreads),
            "group,count,sum_ns,median_ns,90_percent_ns,most_ns\nKV 0,5,25,5,9,9\n"
            "KV 1,5,30,6,10,10\nall,10,55,5,9,10\n");
}

TEST(Selection, SortsByAnyColumn) {
  Session session = timed_session();
  const Trace& trace = session.document().trace;
  std::vector<SliceId> slices = selection_of(session).slices;
  const auto ranks_of = [&] {
    std::vector<int> ranks;
    for (const SliceId id : slices) ranks.push_back(trace.rank_of_row(id.row));
    return ranks;
  };
  sort_slices(trace, slices, SliceOrder::rank, true);
  EXPECT_EQ(ranks_of(), (std::vector<int>{1, 1, 1, 0, 0, 0, 0}));
  sort_slices(trace, slices, SliceOrder::duration, false);
  EXPECT_EQ(trace.slice(slices.front()).duration_ns(), 30);
  EXPECT_EQ(trace.slice(slices.back()).duration_ns(), 200);
  sort_slices(trace, slices, SliceOrder::step, true);
  EXPECT_EQ(trace.slice(slices.front()).step, 1);
  sort_slices(trace, slices, SliceOrder::kind, false);
  EXPECT_EQ(trace.slice(slices.back()).lane, Lane::wait);
  sort_slices(trace, slices, SliceOrder::begin, false);
  EXPECT_EQ(trace.slice(slices.back()).begin_ns, 1200);
}

TEST(Selection, CsvHasALineForEachSliceAndQuotesNames) {
  Session session = timed_session();
  session.set_search("kind:wait");
  const std::vector<SliceId> slices = selection_of(session).slices;
  Trace trace = session.document().trace;
  trace.names[trace.slice(slices[0]).name] = "a \"b\", c";
  EXPECT_EQ(csv_of(trace, slices),
            "begin_ns,duration_ns,rank,lane,name,kind,pass,step,kv_owner,peer,processor_ns,pairs,"
            "flops,bytes\n100,100,0,wait,\"a \"\"b\"\", c\",wait,forward,1,1,1,,,,\n");
}

TEST(Selection, TheCommandFindsTheSameSlice) {
  Session session = timed_session();
  session.pin(1), session.fold(0);
  EXPECT_NE(view_command(session).find(" --pin 1 --fold 0 "), std::string::npos);
  const Trace& trace = session.document().trace;
  for (const SliceId id : selection_of(session).slices) {
    session.reveal(id);
    const std::string command = view_command(session);
    const std::size_t begin = command.find("--select '") + 10;
    const std::string words = command.substr(begin, command.find('\'', begin) - begin);
    const SearchResult found = search(trace, words);
    ASSERT_FALSE(found.slices.empty()) << command;
    EXPECT_EQ(found.slices[0], id) << command;
  }
}

// ---
// Search against brute force and known answers; flows along a ring.

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

TEST(Search, NumbersAndTimesCompare) {
  expect_counts(small(), {{"dur>1999", 4},
                          {"dur > 2us", 3},
                          {"dur>0.0025ms", 1},
                          {"dur>1s", 0},
                          {"dur>400 dur<1.1us kind:compute", 1},
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
        "kind:", "dur>", "dur>1h", "dur>nan", "dur>inf", "dur<-1ms", "step>=x", "longer:1ms",
        "pass:sideways", "colour:red", "for:", "rank:0 bogus:1"}) {
    const SearchResult result = search(small(), words);
    EXPECT_NE(result.complaint, "") << words;
    EXPECT_TRUE(result.slices.empty()) << words;
  }
}

TEST(Search, HitsComeByBeginAndUpToTheLimit) {
  Trace trace = crowded(3, 400, 11);
  const SearchResult all = search(trace, "dur<1s");
  ASSERT_EQ(all.total, trace.slice_count);
  for (std::size_t i = 1; i < all.slices.size(); ++i)
    EXPECT_LE(trace.slice(all.slices[i - 1]).begin_ns, trace.slice(all.slices[i]).begin_ns);
  const SearchResult some = search(trace, "dur<1s", 17);
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
  EXPECT_EQ(count(trace, "rank:2 step:1 dur>20"), expected);
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
