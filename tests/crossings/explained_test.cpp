// What is said of why a run took so long agrees with simulations of the runs that it speaks of.
#include <gtest/gtest.h>

#include <numeric>

#include "core/tools/explain/explain.h"
#include "core/tools/sim/recording.h"
#include "core/trace/summary.h"
#include "tests/crossings/drawn_run.h"

namespace ringscope {
namespace {

double saved_by(const Explanation& why, Cause cause) {
  double saved = 0;
  for (const Diagnosis& finding : why.findings)
    if (finding.cause == cause) saved += finding.saved_s;
  return saved;
}

double wall_of(const Scenario& scenario) {
  return simulate({scenario.job, scenario.pace}, work_of(scenario), machine_of(scenario)).wall_s();
}

TEST(Explained, WallTimeAndLossesAreThoseOfTheSimulation) {
  DrawnRuns runs(3);
  for (int i = 0; i < drawn_runs(); ++i) {
    const Scenario drawn = runs.next();
    SCOPED_TRACE(text_of(drawn));
    const RecordedSimulation run = record(drawn, drawn.job.world_size);
    const Explanation why = explain(run.recording);
    const double wall = run.simulation.wall_s(), rounding = 4e-9;
    ASSERT_NEAR(why.wall_s, wall, rounding);
    // Nothing is wrong with these machines, so only unequal work may be.
    for (const Diagnosis& finding : why.findings)
      ASSERT_EQ(finding.cause, Cause::imbalance) << headline_of(finding);
    const RunSummary summary = summarize(run.recording);
    for (std::size_t rank = 0; rank < why.ranks.size(); ++rank) {
      const RankLosses& losses = why.ranks[rank];
      const double lost =
          std::accumulate(losses.by_cause.begin(), losses.by_cause.end(), losses.hops);
      for (std::size_t cause = 0; cause < kCauseCount; ++cause)
        if (losses.by_cause[cause] > 0)
          ASSERT_GT(saved_by(why, static_cast<Cause>(cause)), 0) << "rank " << rank;
      const double idle = wall - summary.ranks[rank].compute_s;
      ASSERT_LE(lost, idle + 0.01 * wall + rounding) << "rank " << rank;
      ASSERT_NEAR(summary.ranks[rank].compute_s, run.simulation.ranks[rank].compute_s,
                  rounding * static_cast<double>(run.recording.events[rank].size() + 1));
    }
  }
}

// Under a causal mask zigzag ranks have equal work, so what contiguous ones lose by unequal work is what
// they take longer.
TEST(Explained, ImbalanceIsWhatALevelDealSaves) {
  DrawnRuns runs(4);
  int told = 0;
  for (int i = 0; i < drawn_runs(); ++i) {
    Scenario drawn = runs.next();
    drawn.job.world_size = runs.pick({2, 3, 4, 8, 16});
    // Zigzag ranks are as even as a sequence divides.
    drawn.job.shape.seqlen = Index{drawn.job.world_size} * 2 * runs.pick({64, 256});
    drawn.job.mask = MaskSpec::parse("causal");
    drawn.job.partition = PartitionKind::contiguous;
    set_scheme(drawn.job,
               runs.pick<std::string>({"ring", "ring", "ring", "allgather", "groupcast"}));
    drawn.job.hops = drawn.job.scheme_name() == "ring" ? kAllHops[runs.below(2)] : Hops::all;
    const double rows = static_cast<double>(drawn.job.shape.seqlen) / drawn.job.world_size;
    drawn.rates.bytes_per_s = 1e9 / rows * runs.pick({40.0, 10.0});
    SCOPED_TRACE(text_of(drawn));
    Scenario level = drawn;
    level.job.partition = PartitionKind::zigzag;
    const double wall = wall_of(drawn), saves = wall - wall_of(level);
    ASSERT_GT(saves, 0);
    const Explanation why = explain(record(drawn, drawn.job.world_size).recording);
    ASSERT_NEAR(saved_by(why, Cause::imbalance), saves, 0.05 * saves + 1e-8);
    ++told;
  }
  EXPECT_EQ(told, drawn_runs());
}

// The first example of the README and of the start page.
TEST(Explained, ContiguousRanksOnEightGpus) {
  Scenario scenario;
  scenario.job.shape = {
      .batch = 1, .num_heads = 32, .num_heads_kv = 32, .seqlen = 131072, .head_dim = 128};
  scenario.job.dtype = DType::bf16;
  scenario.job.mask = MaskSpec::parse("causal");
  scenario.job.world_size = 8;
  scenario.rates = {
      .forward_flops = 6.4e14, .backward_flops = 5e14, .bytes_per_s = 4.5e11, .latency_s = 3e-6};
  Scenario level = scenario;
  level.job.partition = PartitionKind::zigzag;
  for (const Hops hops : kAllHops) {
    scenario.job.hops = hops;
    const Explanation why = explain(record(scenario).recording);
    const double saved = wall_of(scenario) - wall_of(level);
    EXPECT_NEAR(saved_by(why, Cause::imbalance), saved, 0.01 * saved);
    EXPECT_NEAR(saved_by(why, Cause::imbalance) / why.wall_s, 0.47, 0.005);
  }
}

}  // namespace
}  // namespace ringscope
