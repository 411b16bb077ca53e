// What is selected, against counting by hand: which slices, their spreads, CSV; and the command of a view.
#include "viz/data/session/selection.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/simulated.h"

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

}  // namespace
}  // namespace ringscope::viz
