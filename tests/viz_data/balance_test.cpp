// Work by rank and step: against what the summary of core says of the same recording, and against
// the closed forms.
#include "viz/data/analysis/balance.h"

#include <gtest/gtest.h>

#include "core/ring/ring.h"
#include "core/trace/summary.h"
#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"

namespace ringscope::viz {
namespace {

TEST(Balance, AgreesWithTheSummaryOfRealRuns) {
  for_recorded_runs([](const Recording& recording, const std::string& what) {
    const WorkTable balance = balance_of(trace_of(recording));
    const RunSummary summary = summarize(recording);
    ASSERT_EQ(balance.ranks, recording.info.world_size) << what;
    EXPECT_DOUBLE_EQ(balance.imbalance, summary.imbalance) << what;
    EXPECT_DOUBLE_EQ(balance.balance_ceiling, summary.balance_ceiling) << what;
    EXPECT_NEAR(balance.measured_imbalance, summary.measured_imbalance, 1e-9) << what;
    EXPECT_NEAR(balance.measured_balance_ceiling, summary.measured_balance_ceiling, 1e-9) << what;
    EXPECT_NEAR(balance.exposed_s, summary.exposed_s, 1e-12) << what;
    for (int rank = 0; rank < balance.ranks; ++rank) {
      const RankSummary& of_rank = summary.ranks[rank];
      double compute = 0, cpu = 0, wait = 0;
      for (int step = 0; step < balance.steps; ++step) {
        const WorkCell& cell = balance.at(rank, step);
        compute += static_cast<double>(cell.compute_ns) * 1e-9;
        cpu += static_cast<double>(cell.cpu_ns) * 1e-9;
        wait += static_cast<double>(cell.wait_ns) * 1e-9;
        if (step < balance.ranks) {
          EXPECT_EQ(cell.pairs, of_rank.pairs_by_step[step]) << what;
        }
      }
      EXPECT_NEAR(compute, of_rank.compute_s, 1e-12) << what;
      EXPECT_NEAR(cpu, of_rank.compute_cpu_s, 1e-12) << what;
      EXPECT_NEAR(wait, of_rank.wait_s, 1e-12) << what;
    }
  });
}

TEST(Balance, WhatIsCountedIsWhatIsPredicted) {
  for_recorded_runs([](const Recording& recording, const std::string& what) {
    const WorkTable balance = balance_of(trace_of(recording));
    ASSERT_TRUE(balance.predicted) << what;
    Index total = 0;
    for (int rank = 0; rank < balance.ranks; ++rank)
      for (int step = 0; step < balance.steps; ++step) {
        EXPECT_EQ(balance.at(rank, step).predicted_pairs, balance.at(rank, step).pairs)
            << what << ", rank " << rank << ", step " << step;
        total += balance.at(rank, step).pairs;
      }
    EXPECT_GT(total, 0) << what;
    EXPECT_DOUBLE_EQ(balance.predicted_balance_ceiling, balance.balance_ceiling) << what;
  });
}

TEST(Balance, NodesHaveEqualSharesOfConsecutiveRanks) {
  RunInfo run;
  run.world_size = 6;
  EXPECT_EQ(nodes_of(run).size(), 1u);
  run.machine.emplace().nodes = 3;
  EXPECT_EQ(nodes_of(run), (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}}));
  for (const int odd : {4, 0, -1, 7}) {
    run.machine->nodes = odd;
    ASSERT_EQ(nodes_of(run).size(), 1u) << odd;
    EXPECT_EQ(nodes_of(run)[0].size(), 6u);
  }
}

// Ranks 0 and 1 take 10 ns a pair and rank 2 takes 30; at step 1 rank 0 has no pairs. Ranks
// from 3 on are not recorded.
TEST(Balance, DeviationsAreFromTheMedianRankOfEachStep) {
  HandMade made(7, "contiguous", "causal");
  made.compute(0, 0, 0, 100, 10).compute(1, 0, 0, 200, 20).compute(2, 0, 0, 300, 10);
  made.compute(0, 1, 400, 405, 0).compute(1, 1, 400, 600, 20).compute(2, 1, 400, 1000, 20);
  const WorkTable table = balance_of(made.trace());
  EXPECT_EQ(table.recorded, (std::vector<bool>{true, true, true, false, false, false, false}));
  EXPECT_EQ(table.at(2, 0).pace_ns, 30'000'000);
  EXPECT_EQ(table.at(0, 1).pace_ns, 0);
  EXPECT_EQ(table.largest.pace_ns, 30'000'000);
  EXPECT_EQ(table.largest.compute_ns, 600);
  const Deviations time = deviations_of(table, &WorkCell::compute_ns);
  EXPECT_EQ(time.usual, (std::vector<double>{200, 200}));
  EXPECT_DOUBLE_EQ(time.by_rank[0], (100 + 195) / 2.0);
  EXPECT_DOUBLE_EQ(time.by_rank[1], 0);
  EXPECT_DOUBLE_EQ(time.by_rank[3], 0);
  const Deviations pace = deviations_of(table, &WorkCell::pace_ns);
  EXPECT_EQ(pace.usual, (std::vector<double>{1e7, 2e7}));
  EXPECT_DOUBLE_EQ(pace.by_rank[0], 0);  // not for its lack of pairs
  EXPECT_DOUBLE_EQ(pace.by_rank[2], 3e7 / 2);
}

TEST(Balance, BackwardStepsFollowTheForwardOnes) {
  HandMade made(2);
  made.compute(0, 0, 0, 10, 3).compute(0, 1, 10, 30, 4).compute(0, 0, 40, 90, 5, Pass::backward);
  made.wait(0, 1, 90, 97, Payload::dkv, Pass::backward).compute(1, 1, 0, 5, 6, Pass::backward);
  const WorkTable balance = balance_of(made.trace());
  ASSERT_EQ(balance.steps, 4);
  EXPECT_EQ(balance.at(0, 1).pairs, 4);
  EXPECT_EQ(balance.at(0, 2).pairs, 5);
  EXPECT_EQ(balance.at(0, 2).compute_ns, 50);
  EXPECT_EQ(balance.at(0, 2).flops, 50);
  EXPECT_EQ(balance.at(0, 2).wait_ns, 7);  // with nothing left to attend
  EXPECT_EQ(balance.at(1, 3).pairs, 6);
  EXPECT_DOUBLE_EQ(balance.imbalance, 2);  // of forward pairs: 7 and none
  EXPECT_DOUBLE_EQ(balance.wall_s, 97e-9);
}

TEST(Balance, ExposedIsTransferTimeOutsideComputing) {
  HandMade made(2);
  made.compute(0, 0, 0, 10).compute(0, 1, 20, 30).hop(0, 0, 5, 25).hop(1, 0, 8, 40);
  // Rank 0 sends and receives from 5 to 40, of which 5 to 10 and 20 to 30 beside computing; rank 1
  // computes nothing meanwhile.
  EXPECT_DOUBLE_EQ(balance_of(made.trace()).exposed_s, 35e-9);
  made.compute(1, 0, 5, 40);
  EXPECT_DOUBLE_EQ(balance_of(made.trace()).exposed_s, 20e-9);
}

TEST(Balance, UnknownMasksAreNotPredicted) {
  HandMade made(2, "contiguous", "diagonal");
  made.compute(0, 0, 0, 10, 7);
  const WorkTable balance = balance_of(made.trace());
  EXPECT_FALSE(balance.predicted);
  EXPECT_EQ(balance.at(0, 0).pairs, 7);
  EXPECT_EQ(balance.at(0, 0).predicted_pairs, 0);
}

TEST(Balance, OddTraces) {
  EXPECT_EQ(balance_of(Trace{}).ranks, 0);
  const WorkTable none = balance_of(HandMade(3).trace());
  EXPECT_EQ(none.ranks, 3);
  EXPECT_EQ(none.steps, 0);
  EXPECT_EQ(none.balance_ceiling, 1);
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed);
    const WorkTable balance = balance_of(trace);
    std::int64_t cells = 0, slices = 0;
    for (const WorkCell& cell : balance.cells) cells += cell.compute_ns + cell.wait_ns;
    for (const std::vector<TraceEvent>& of_rank : trace.events)
      for (const TraceEvent& s : of_rank)
        if (s.lane == Lane::compute || s.lane == Lane::wait) slices += s.duration_ns();
    EXPECT_EQ(cells, balance.steps == 0 ? 0 : slices) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ringscope::viz
