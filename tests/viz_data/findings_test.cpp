// What is said about a recording: the sentences for runs whose idle times are known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/ring/ring.h"
#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"
#include "viz/data/analysis/balance.h"
#include "viz/data/analysis/findings.h"
#include "viz/data/mask/mask_painter.h"
#include "viz/data/session/document.h"

namespace ringscope::viz {
namespace {

std::vector<std::string> findings_of(const Trace& trace) {
  const Explanation why = explanation_of(trace);
  return texts_of(findings(trace, why, idle_of(trace, why), balance_of(trace)));
}

bool says(const std::vector<std::string>& sentences, const std::string& part) {
  for (const std::string& sentence : sentences)
    if (sentence.find(part) != std::string::npos) return true;
  return false;
}

// A forward pass on ranks that take a microsecond a pair, and links that take `link_ns`; `slow` is
// a rank that takes three times as long.
Trace simulated(const std::string& partition, int world_size, std::int64_t link_ns, int slow = -1,
                double cpu_share = 1) {
  HandMade made(world_size, partition, "causal", "ring", 64 * world_size);
  const MaskModel model = *mask_model(made.trace());
  const Mask mask = model.mask();
  std::vector<std::int64_t> now(static_cast<std::size_t>(world_size), 0), arrived = now,
                                                                          ready = now;
  for (int step = 0; step < world_size; ++step) {
    std::vector<std::int64_t> next_arrived(now.size(), 0);
    for (int rank = 0; rank < world_size; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const auto next = (r + 1) % now.size();
      // A hop begins when both ends have this step's block and are done with the one before.
      const std::int64_t begin = std::max({arrived[r], ready[r], arrived[next], ready[next]});
      if (step + 1 < world_size) made.hop(rank, step, begin, begin + link_ns);
      next_arrived[next] = begin + link_ns;
    }
    for (int rank = 0; rank < world_size; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (arrived[r] > now[r]) {
        made.wait(rank, step, now[r], arrived[r]);
        now[r] = arrived[r];
      }
      const Index pairs =
          model.region(mask, rank, RingSchedule{rank, world_size}.owner(step)).pairs();
      const std::int64_t end = now[r] + pairs * (rank == slow ? 3000 : 1000);
      made.compute(rank, step, now[r], end, pairs);
      ready[r] = now[r] = end;
    }
    arrived = next_arrived;
  }
  for (auto& events : made.recording().events)
    for (TraceEvent& e : events)
      e.cpu_ns = static_cast<std::int64_t>(cpu_share * static_cast<double>(e.cpu_ns));
  return made.trace();
}

// Expect that each of `parts` is said, and none of `others`.
void expect_said(const Trace& trace, const std::vector<std::string>& parts,
                 const std::vector<std::string>& others = {}) {
  const std::vector<std::string> said = findings_of(trace);
  for (const std::string& part : parts)
    EXPECT_TRUE(says(said, part)) << part << ": " << testing::PrintToString(said);
  for (const std::string& other : others)
    EXPECT_FALSE(says(said, other)) << other << ": " << testing::PrintToString(said);
}

TEST(Findings, WhyContiguousIsSlow) {
  expect_said(simulated("contiguous", 4, 1000),
              {"Rank 0 waits longest", "all of it for rank 3", "Ranks compute 57 % of the time",
               "Contiguous with a causal mask is uneven: rank 3 has 6.91 times the pairs of rank 0",
               "striped, zigzag or fold would even it out"},
              {"shared", "is slow"});
}

// Most is more than half.
TEST(Findings, ForWhomARankWaitsLongest) {
  HandMade made(4);
  for (int rank = 0; rank < 4; ++rank) made.compute(rank, 0, 0, 1000, 10);
  for (const int whom : {1, 2, 3}) {
    made.wait(0, whom, 1000 * whom, 1000 * whom + 300 + 100 * (whom == 1));
    made.recording().events[0].back().waiting_for = whom;
  }
  expect_said(made.trace(), {"Rank 0 waits longest", ", of which 40 % for rank 1"});
  made.recording().events[0].back().waiting_for = 1;
  expect_said(made.trace(), {", most of it (70 %) for rank 1"});
}

// Nobody is picked of those that wait as long as each other, or are waited for as long.
TEST(Findings, TiesAreSaidAsTies) {
  const auto waiting = [](const std::vector<std::vector<int>>& whom) {
    HandMade made(8);
    for (int rank = 0; rank < 8; ++rank) made.compute(rank, 0, 0, 1000, 10);
    for (std::size_t rank = 0; rank < whom.size(); ++rank)
      for (std::size_t i = 0; i < whom[rank].size(); ++i) {
        const auto begin = 1000 * static_cast<std::int64_t>(i + 1);
        made.wait(static_cast<int>(rank), 1, begin, begin + 300);
        made.recording().events[rank].back().waiting_for = whom[rank][i];
      }
    return made.trace();
  };
  expect_said(waiting({{1, 2, 3}}),
              {"Rank 0 waits longest: 900 ns, of which 33 % for each of ranks 1, 2 and 3."});
  expect_said(waiting({{1, 2, 3, 4, 5, 6, 7}}), {"of which 14 % for each of 7 ranks."});
  expect_said(waiting({{}, {0}, {0}}), {"Ranks 1 and 2 wait as long as each other, and longest: "
                                        "300 ns each, all of it for rank 0."});
  expect_said(waiting({{}, {0}, {1}, {2}, {3}, {4}, {5}, {6}}),
              {"7 ranks wait as long as each other, and longest: 300 ns each."});
  expect_said(waiting({{1}, {0}, {1}, {2}, {3}, {4}, {5}, {6}}),
              {"All ranks wait as long as each other: 300 ns each."});
}

// The others idle because of it, and it does not. What is said can be shown and tried.
TEST(Findings, ASlowRankIsWhatTheOthersIdleFor) {
  const Trace trace = simulated("zigzag", 4, 1000, 2);
  const Explanation why = explanation_of(trace);
  const IdleReport idle = idle_of(trace, why);
  for (int rank = 0; rank < 4; ++rank) {
    const double share = static_cast<double>(idle.ranks[rank].of(Cause::slow_rank)) /
                         static_cast<double>(idle.wall_ns);
    EXPECT_GE(rank == 2 ? 0.52 - share : share, 0.5) << rank;
  }
  const std::vector<Finding> said = findings(trace, why, idle, balance_of(trace));
  ASSERT_FALSE(said.empty());
  EXPECT_TRUE(said[0].text.starts_with("Rank 2 is slow, which costs")) << said[0].text;
  EXPECT_NE(said[0].text.find(" % of the wall time)"), std::string::npos) << said[0].text;
  EXPECT_EQ(said[0].settings, "straggler=2:1");
  ASSERT_TRUE(said[0].show);
  EXPECT_EQ(trace.rank_of_row(said[0].show->row), 2);
}

TEST(Findings, UnevenWorkComesFirstAndCanBeTriedEvenly) {
  const Document document = make_document(simulated("contiguous", 4, 1000));
  ASSERT_FALSE(document.findings.empty());
  EXPECT_EQ(document.findings[0].text.substr(0, 10), "Contiguous");
  EXPECT_EQ(document.findings[0].settings, "partition=striped");
  ASSERT_TRUE(document.findings[0].show);
  EXPECT_EQ(document.trace.rank_of_row(document.findings[0].show->row), 3);
}

TEST(Findings, OfEvenWork) {
  expect_said(simulated("zigzag", 4, 1000), {"Work is even"}, {"would even it out"});
  expect_said(simulated("zigzag", 4, 100'000'000), {"Blocks take longer to arrive than to attend"});
  expect_said(simulated("zigzag", 4, 1000, -1, 0.5),
              {"Ranks share cores, which costs", "they have one for 50 % of the time"});
}

TEST(Findings, NobodyWaits) {
  HandMade made(2);
  made.compute(0, 0, 0, 10).compute(1, 0, 0, 10);
  expect_said(made.trace(), {"No rank had to wait"});
}

TEST(Findings, ThreeToFiveSentencesOfRealRuns) {
  for_recorded_runs([](const Recording& recording, const std::string& what) {
    const std::vector<std::string> said = findings_of(trace_of(recording));
    EXPECT_GE(said.size(), recording.info.world_size > 1 ? 3u : 1u) << what;
    EXPECT_LE(said.size(), 5u) << what;
    for (const std::string& sentence : said) {
      EXPECT_EQ(sentence.back(), '.') << sentence;
      EXPECT_EQ(sentence.find("nan"), std::string::npos) << sentence;
    }
  });
}

TEST(Findings, OddTraces) {
  EXPECT_TRUE(findings_of(Trace{}).empty());
  EXPECT_TRUE(findings_of(HandMade(3).trace()).empty());
  for (std::uint32_t seed = 0; seed < 500; ++seed)
    for (const std::string& sentence : findings_of(random_trace(seed))) {
      EXPECT_EQ(sentence.find("nan"), std::string::npos) << sentence;
      EXPECT_EQ(sentence.find("inf"), std::string::npos) << sentence;
    }
}

// The viewer finds what `explain` finds, also where a lane shows only a part of a message's way.
TEST(Findings, AreThoseOfExplain) {
  for (const char* scheme : {"ring", "bidirectional", "mesh:2x4"}) {
    Scenario scenario = simulated_scenario(8, PartitionKind::zigzag, true);
    set_scheme(scenario.job, scheme);
    scenario.rates.bytes_per_s = 2e8;
    scenario.hop_jitter = 0.5;
    const Recording recording = simulated_recording(scenario);
    std::vector<std::string> found, seen;
    for (const Diagnosis& each : explain(recording).findings) found.push_back(sentence_of(each));
    for (const Diagnosis& each : explanation_of(to_trace(recording, "")).findings)
      seen.push_back(sentence_of(each));
    EXPECT_TRUE(!found.empty() && seen == found) << scheme << testing::PrintToString(seen);
  }
}

// A recording of some ranks speaks of their times, and of all ranks' pairs or, where the mask says
// nothing here, of theirs.
TEST(Findings, ASampleOfRanksIsNotTakenForAll) {
  Scenario scenario = simulated_scenario(16, PartitionKind::contiguous);
  Recording sample = record(scenario, 4).recording;
  const WorkTable all = balance_of(simulated_trace(scenario));
  const Trace trace = to_trace(sample, "sample");
  EXPECT_DOUBLE_EQ(balance_of(trace).imbalance, all.imbalance);
  EXPECT_DOUBLE_EQ(balance_of(trace).balance_ceiling, all.balance_ceiling);
  expect_said(trace, {"Of 16 ranks, 4 were recorded", "rank 15 has 31 times the pairs of rank 0"});
  double compute = 0;
  for_each_slice(trace, Lane::compute, [&](int, const TraceEvent& slice) {
    compute += static_cast<double>(slice.duration_ns()) / 4;
  });
  const IdleReport idle = idle_of(trace, explanation_of(trace));
  EXPECT_NEAR(idle.compute_ns() / idle.ranks_ns(), compute / static_cast<double>(idle.wall_ns),
              1e-9);

  double sum = 0, most = 0;
  for (auto& events : sample.events) {
    double pairs = 0;
    for (const TraceEvent& e : events) pairs += static_cast<double>(e.pairs);
    sum += pairs, most = std::max(most, pairs);
  }
  sample.info.mask = "of tomorrow";
  EXPECT_DOUBLE_EQ(balance_of(to_trace(sample, "sample")).imbalance, most / (sum / 4));
  EXPECT_NE(explain(sample).findings.at(0).evidence.find(
                fmt::format("{:.2f} times the mean pairs", most / (sum / 4))),
            std::string::npos);
  EXPECT_NE(explain(sample).findings[0].evidence.find("4 recorded ranks"), std::string::npos);
}

TEST(Findings, SpellMicrosecondsLikeTheViewer) {
  Scenario scenario = simulated_scenario(4, PartitionKind::zigzag);
  scenario.step_s = 900e-6;
  expect_said(simulated_trace(scenario), {"900.0 µs besides its pairs"}, {" us"});
}

// The first heat map of a run whose trouble is a link is not the one of its even pace.
TEST(Findings, TheFirstHeatMapShowsWhatCostTheMost) {
  const auto metric_of = [](const Scenario& scenario) {
    const Trace trace = simulated_trace(scenario);
    return telling_metric(balance_of(trace), explanation_of(trace));
  };
  const Scenario even = simulated_scenario(16, PartitionKind::zigzag);
  Scenario slow = even, link = even, jittery = even;
  slow.stragglers = {{5, 0.5}};
  link.rates.bytes_per_s = 1e8;
  jittery.hop_jitter = 0.5;
  jittery.rates.bytes_per_s = 1e8;
  EXPECT_EQ(metric_of(simulated_scenario(16)), 2);
  EXPECT_EQ(metric_of(link), 3);
  EXPECT_EQ(metric_of(jittery), 3);
  EXPECT_EQ(metric_of(slow), 4);
}

}  // namespace
}  // namespace ringscope::viz
