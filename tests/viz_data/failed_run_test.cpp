// Recordings that end anywhere, of runs that failed or go on, and are opened all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "tests/schemes.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/trace_loader_text.h"
#include "viz/data/analysis/findings.h"
#include "viz/data/session/document.h"
#include "viz/data/session/session.h"

namespace ringscope::viz {
namespace {

Recording failed_recording() {
  Recording recording = whole_recording();
  recording.info.failure = RunEnd{"no sign of life for 60 s", 1, 0};
  return recording;
}

TEST(FailedRun, SendsMayLackTheirReceives) {
  Recording recording = failed_recording();
  std::erase_if(recording.events[1], [](const TraceEvent& e) { return e.lane == Lane::recv; });
  EXPECT_EQ(complaint(trace_text_of(recording)), "");
  recording.info.failure.reset();
  expect_complaint(trace_text_of(recording), "given for flow");
}

// Rank 1 of three dies in step 1, having received its block: rank 2, which took rank 1's own block,
// gets no other, and rank 0 can't hand on what it holds. All of it ends at 1 ms.
HandMade a_death() {
  constexpr std::int64_t kUs = 1000;
  HandMade made(3);
  made.recording().info.failure = RunEnd{"killed", 1, 1};
  for (const int rank : {0, 1, 2}) {
    made.compute(rank, 0, 0, 100 * kUs);
    made.hop(rank, 0, 0, 50 * kUs);
  }
  made.wait(1, 1, 100 * kUs, 120 * kUs);  // over: its hop was
  made.compute(0, 1, 100 * kUs, 200 * kUs);
  made.compute(2, 1, 100 * kUs, 300 * kUs);
  made.wait(0, 2, 200 * kUs, 1000 * kUs);
  made.wait(2, 2, 300 * kUs, 1000 * kUs);
  made.hop(2, 1, 200 * kUs, 210 * kUs);  // to rank 0, whose own send to rank 1 is missing
  return made;
}

std::vector<int> ranks_of(const Trace& trace, const std::vector<SliceId>& waits) {
  std::vector<int> ranks;
  for (const SliceId& id : waits) ranks.push_back(trace.rank_of_row(id.row));
  return ranks;
}

TEST(FailedRun, KnowsTheWaitsThatWereInVain) {
  HandMade made = a_death();
  const Trace trace = made.trace();
  const std::vector<SliceId> waits = unfinished_waits(trace);
  EXPECT_EQ(ranks_of(trace, waits), (std::vector<int>{0, 2}));
  for (const SliceId& id : waits) EXPECT_EQ(trace.slice(id).step, 2);
  // Rank 0 has received as well as sent, and then failed before it had computed anything.
  made.hop(0, 1, 300'000, 900'000);
  EXPECT_EQ(ranks_of(made.trace(), unfinished_waits(made.trace())), (std::vector<int>{2}));
  made.recording().info.failure.reset();
  EXPECT_TRUE(unfinished_waits(made.trace()).empty());
  // Who computed after a wait did not wait in vain, whatever else was not recorded.
  HandMade other(2);
  other.recording().info.failure = RunEnd{"killed", 1, 1};
  other.compute(0, 0, 0, 10).wait(0, 1, 10, 20).compute(0, 1, 20, 30);
  EXPECT_TRUE(unfinished_waits(other.trace()).empty());
}

// Every rank sends before it receives, so each waits for the next, which waits too.
HandMade a_circle() {
  HandMade made(3);
  made.recording().info.failure = RunEnd{"ranks wait for each other", 0, 1};
  for (const int rank : {0, 1, 2}) {
    made.compute(rank, 0, 0, 100).wait(rank, 1, 100 + rank, 10'000);
    made.recording().events[rank].back().waiting_for = (rank + 1) % 3;
  }
  return made;
}

TEST(FailedRun, ACircleOfWaitsIsTold) {
  const Trace trace = a_circle().trace();
  std::vector<int> circle = circle_of(trace, unfinished_waits(trace));
  std::sort(circle.begin(), circle.end());
  EXPECT_EQ(circle, (std::vector<int>{0, 1, 2}));
  // All of them wait from where the last one begins to.
  const auto place = failure_place(trace, unfinished_waits(trace));
  ASSERT_TRUE(place && place->slice);
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->at_ns, 102);
  const Trace death = a_death().trace();
  EXPECT_TRUE(circle_of(death, unfinished_waits(death)).empty());
  EXPECT_TRUE(circle_of(death, {}).empty());
}

// Nothing is left unexplained of the time after the last slice that ended well.
TEST(FailedRun, WaitsInVainAreTimeSpentSo) {
  const Document circle = make_document(a_circle().trace());
  for (const RankIdle& rank : circle.idle.ranks) {
    EXPECT_GE(rank.in_vain, 9'890);
    EXPECT_LE(rank.rest, 2);
    EXPECT_EQ(rank.compute + rank.in_vain + rank.rest + rank.hops, 10'000);
  }
  const IdleReport death = make_document(a_death().trace()).idle;
  EXPECT_EQ(death.ranks[0].in_vain, 800'000);
  EXPECT_EQ(death.ranks[1].in_vain, 0);
}

// Before that, to the failed rank's own wait.
TEST(FailedRun, LeadsToWhoWaitedLongest) {
  HandMade made = a_death();
  for (const auto& [failed, waiting, at_ns] : {std::tuple(1, 0, 200'000), {2, 2, 300'000}}) {
    made.recording().info.failure->rank = failed;
    const Trace trace = made.trace();
    const auto place = failure_place(trace, unfinished_waits(trace));
    ASSERT_TRUE(place && place->slice);
    EXPECT_EQ(place->rank, failed);
    EXPECT_EQ(trace.rank_of_row(place->slice->row), waiting);
    EXPECT_EQ(place->at_ns, at_ns);
  }
  // Rank 2 was heard of to the end.
  EXPECT_EQ(make_document(made.trace()).findings[0].text.substr(0, 13), "Rank 0 waited");
  EXPECT_FALSE(failure_place(parse_trace(trace_text_of(whole_recording())), {}));
}

TEST(FailedRun, WithoutWaitsLeadsToWhereTheRankWasSeenLast) {
  HandMade made(2);
  made.recording().info.failure = RunEnd{"killed", 1, 0};
  made.compute(0, 0, 0, 700).compute(1, 0, 0, 300);
  const Trace trace = made.trace();
  const auto place = failure_place(trace, {});
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->slice);
  EXPECT_EQ(place->at_ns, 300);
  EXPECT_EQ(last_seen_ns(trace, 0), 700);
  // A rank that nothing was recorded of, and one that there is not.
  HandMade silent(2);
  silent.recording().info.failure = RunEnd{"killed", 1, 0};
  silent.compute(0, 0, 100, 700);
  EXPECT_EQ(failure_place(silent.trace(), {})->at_ns, 100);
  EXPECT_FALSE(last_seen_ns(silent.trace(), 1));
  silent.recording().info.failure->rank = -1;
  EXPECT_EQ(failure_place(silent.trace(), {})->rank, -1);
  EXPECT_EQ(failure_place(silent.trace(), {})->at_ns, 700);
}

TEST(FailedRun, SaysWhoWaitedInVain) {
  const Document document = make_document(a_death().trace());
  EXPECT_EQ(
      texts_of(document.findings),
      (std::vector<std::string>{
          "Nothing was recorded of rank 1 after step 1, at 120 \u00b5s.",
          "Rank 0 waited for rank 2 in step 2, in vain: 800 \u00b5s.",
          "Rank 2 waited for rank 1 in step 2, in vain: 700 \u00b5s.",
          "The run ended before its time: the figures are of what was recorded until then."}));
}

// The banner says that it waits for nobody, and so does everything else.
TEST(FailedRun, WhoWaitsForItselfWaitsForNobody) {
  HandMade made(2);
  made.recording().info.failure =
      RunEnd{"no progress for 1 s; others wait for it, and it waits for nobody", 1, 0};
  made.compute(0, 0, 0, 10).compute(1, 0, 0, 10).wait(1, 1, 10, 1000);
  made.recording().events[1].back().waiting_for = 1;
  const Document document = make_document(made.trace());
  EXPECT_EQ(document.findings[0].text,
            "Rank 1 waited in step 1 for its own part of the hop, in vain: 990 ns.");
  // The hop after step 0 failed, of which the wait is that for what step 1 attends.
  EXPECT_EQ(words_of_failed_step(document.trace, document.unfinished), "hop from step 0 to step 1");
  made.recording().info.failure->step = 1;
  EXPECT_EQ(words_of_failed_step(made.trace(), document.unfinished), "step 1");
}

TEST(FailedRun, OfManyRanksNamesAFew) {
  HandMade made(9);
  made.recording().info.failure = RunEnd{"killed", 0, 1};
  made.compute(0, 0, 0, 10);
  for (int rank = 1; rank < 9; ++rank) made.wait(rank, 1, 10, 100 + rank);
  const Document document = make_document(made.trace());
  ASSERT_EQ(document.findings.size(), 7u);
  EXPECT_EQ(document.findings[1].text.substr(0, 6), "Rank 8");
  EXPECT_EQ(document.findings[5].text, "So did 4 more ranks.");
}

// What a tree collects at last belongs to no step.
TEST(FailedRun, NamesWaitsBehindTheLastStep) {
  HandMade made(2);
  made.recording().info.failure = RunEnd{"killed", 0, 1};
  made.compute(1, 1, 0, 10).wait(1, -1, 10, 100);
  const Document document = make_document(made.trace());
  EXPECT_NE(document.findings[1].text.find(" in the last step, in vain"), std::string::npos)
      << document.findings[1].text;
}

// The step that a rank did not get beyond lasts until the end; none is made up behind it.
TEST(FailedRun, StepsEndWhereTheRunDid) {
  const Trace trace = a_death().trace();
  const Axis axis(trace);
  EXPECT_EQ(axis.steps(), 3);
  EXPECT_EQ(axis.step_begin_ns(1, 1), 100'000);
  EXPECT_EQ(axis.step_begin_ns(1, 2), 1'000'000);
  EXPECT_EQ(axis.step_at(1, 999'999), 1);
  EXPECT_EQ(axis.step_begin_ns(2, 2), 300'000);
  HandMade made(2);
  made.recording().info.failure = RunEnd{"killed", 1, 1};
  made.compute(0, 0, 0, 10).compute(0, 1, 10, 90).compute(1, 0, 0, 20);
  const Axis other(made.trace());
  EXPECT_EQ(other.step_begin_ns(1, 1), 20);
  EXPECT_EQ(other.step_begin_ns(1, 2), 90);
}

TEST(FailedRun, IsOpenedWhereItFailed) {
  Session session = session_of(a_death().trace());
  EXPECT_EQ(session.playback.position(), 200'000);
  EXPECT_EQ(session.selected_rank, 1);
  EXPECT_EQ(session.view.end, 250'000);  // what led to it, and not the time-out
  session.seek(0);
  EXPECT_TRUE(session.go_to_failure());
  EXPECT_EQ(session.playback.position(), 200'000);
}

// A story knows better where to begin.
TEST(FailedRun, WithAStoryBeginsWithThat) {
  HandMade made = a_death();
  made.recording().story = {{.text = "It began well.", .step = 0, .rank = 2}};
  Session session = session_of(made.trace());
  EXPECT_EQ(session.playback.position(), 50'000);
  EXPECT_EQ(session.selected_rank, 2);
}

// Whatever was recorded until then can be shown, and adds up.
TEST(FailedRun, EveryFaultOnThreads) {
  for (const Scheme* scheme : kRunSchemes)
    for (const Fault fault : kAllFaults) {
      if (fault == Fault::slow_rank || fault == Fault::early_reuse || fault == Fault::no_overlap ||
          delays_computing(fault))
        continue;
      SCOPED_TRACE(testing::Message() << name_of(fault) << ", " << name_of(scheme));
      Problem config;
      config.shape = {.batch = 1, .num_heads = 2, .num_heads_kv = 1, .seqlen = 96, .head_dim = 8};
      config.mask = MaskSpec::parse("causal");
      config.world_size = 3;
      config.scheme = scheme;
      config.timeout_s = 0.1;
      config.injection = Injection{fault, 1, 1};
      const Tensors<float> in = random_tensors(config.shape, 7);
      try {
        run_on_threads(config, {in.q, in.k, in.v, {}});
        ADD_FAILURE();
      } catch (const RunFailure& failure) {
        const Document document = make_document(parse_trace(trace_text_of(failure.recording())));
        // On threads every fault leaves somebody waiting, who is named, or was still computing.
        EXPECT_LE(document.unfinished.size(), 3u);
        if (fault == Fault::unposted_recv && scheme == scheme_named("ring")) {
          EXPECT_GE(document.unfinished.size(), 1u);
        }
        EXPECT_EQ(texts_of(document.findings),
                  findings_of_failure(document.trace, document.unfinished));
        for (const RankIdle& rank_idle : document.idle.ranks)
          EXPECT_EQ(std::accumulate(
                        rank_idle.by_cause.begin(), rank_idle.by_cause.end(),
                        rank_idle.compute + rank_idle.hops + rank_idle.in_vain + rank_idle.rest),
                    document.idle.wall_ns);
      }
    }
}

}  // namespace
}  // namespace ringscope::viz
