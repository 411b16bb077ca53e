// What plan says by its closed forms is what simulate says task by task, where both have an answer.
#include <gtest/gtest.h>

#include "core/ring/loop_counts.h"
#include "core/tools/cost/time.h"
#include "tests/crossings/drawn_run.h"

namespace ringscope {
namespace {

TEST(Foreseen, TimesOfPlansAreThoseOfSimulations) {
  DrawnRuns runs(5);
  int compared = 0;
  for (int i = 0; i < drawn_runs(); ++i) {
    Scenario drawn = runs.next();
    drawn.pace = Pace::in_step;
    Problem& job = drawn.job;
    // Now and then too short for every rank to have rows.
    if (i % 8 == 0 && job.mask.name().find("documents") == std::string::npos)
      job.shape.seqlen = 1 + runs.below(2 * job.world_size);
    const bool has_closed_form = is_plain(job) || job.scheme->course == Course::heads;
    if (!has_closed_form || is_followed(job)) continue;
    SCOPED_TRACE(text_of(drawn));
    ++compared;
    const Simulation simulated = simulate({job, drawn.pace}, work_of(drawn), machine_of(drawn));
    const Balance balance = balance_of(job);
    const LayerTime planned = layer_time(job, balance, drawn.rates);
    const double rounding = 1e-9 * simulated.wall_s();
    ASSERT_NEAR(planned.forward.total(), simulated.forward_s, rounding);
    ASSERT_NEAR(planned.backward.total(), simulated.backward_s, rounding);
    // What holds ranks up is a part of it, and no time is counted twice.
    const double parts = planned.forward.compute + planned.backward.compute + planned.imbalance() +
                         planned.exposed();
    ASSERT_NEAR(parts, planned.total(), rounding);
    if (is_plain(job)) {
      ASSERT_EQ(balance.slowest_steps(), simulated.slowest_step_pairs);
      ASSERT_EQ(balance.mean_rank, simulated.mean_step_pairs);
    } else {
      ASSERT_NEAR(planned.exposed(), simulated.exposed_s(), rounding);
      ASSERT_EQ(simulated.balance_ceiling(), 1);
    }
  }
  EXPECT_GT(compared, drawn_runs() / 4);
}

}  // namespace
}  // namespace ringscope
