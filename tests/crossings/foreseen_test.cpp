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
    const Problem& job = drawn.job;
    const bool has_closed_form = is_plain(job) || job.scheme->course == Course::heads;
    if (!has_closed_form || is_followed(job)) continue;
    SCOPED_TRACE(text_of(drawn));
    ++compared;
    const double simulated =
        simulate({job, drawn.pace}, work_of(drawn), machine_of(drawn)).wall_s();
    const double planned = layer_time(job, balance_of(job), drawn.rates).total();
    ASSERT_NEAR(planned, simulated, 1e-9 * simulated);
    // What holds ranks up is a part of it, and no time is counted twice.
    const LayerTime time = layer_time(job, balance_of(job), drawn.rates);
    const double parts =
        time.forward.compute + time.backward.compute + time.imbalance() + time.exposed();
    ASSERT_NEAR(parts, planned, 1e-9 * planned);
  }
  EXPECT_GT(compared, drawn_runs() / 4);
}

}  // namespace
}  // namespace ringscope
