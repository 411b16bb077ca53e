// The two axes against each other, and against traces whose steps are known.
#include "viz/data/timeline/axis.h"

#include <gtest/gtest.h>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"

namespace ringscope::viz {
namespace axis_test {

// Rank 0 computes step 0 from 100 to 300, waits from 320 and computes step 1 from 400 to 500. Rank
// 1 need not wait: it computes from 0 to 600 and from 650 to 1000.
Trace two_ranks() {
  return HandMade(2)
      .compute(0, 0, 100, 300)
      .wait(0, 1, 320, 390)
      .compute(0, 1, 400, 500)
      .compute(1, 0, 0, 600)
      .compute(1, 1, 650, 1000)
      .trace();
}

TEST(Axis, TimeIsNanosecondsAfterTheFirstSlice) {
  const Axis axis(HandMade(1).compute(0, 0, 250, 300).compute(0, 0, 310, 450).trace());
  EXPECT_EQ(axis.length(AxisMode::time), 200);
  EXPECT_EQ(axis.position(AxisMode::time, 0, 310), 60);
  EXPECT_EQ(axis.time_at(AxisMode::time, 0, 60), 310);
}

TEST(Axis, AStepBeginsWithItsWaitOrWithItsWork) {
  const Axis axis(two_ranks());
  ASSERT_EQ(axis.steps(), 2);
  EXPECT_EQ(axis.length(AxisMode::steps), 2);
  EXPECT_EQ(axis.step_begin_ns(0, 0), 0);
  EXPECT_EQ(axis.step_begin_ns(0, 1), 320);
  EXPECT_EQ(axis.step_begin_ns(0, 2), 500);  // where it ends
  EXPECT_EQ(axis.step_begin_ns(1, 2), 1000);
  EXPECT_EQ(axis.step_begin_ns(1, 1), 650);
}

TEST(Axis, TheSlowestRankOfAStepFillsIt) {
  const Axis axis(two_ranks());
  EXPECT_EQ(axis.step_length_ns(0), 650);
  EXPECT_EQ(axis.step_length_ns(1), 350);
  EXPECT_DOUBLE_EQ(axis.position(AxisMode::steps, 1, 325), 0.5);
  EXPECT_DOUBLE_EQ(axis.position(AxisMode::steps, 1, 825), 1.5);
  EXPECT_EQ(axis.time_at(AxisMode::steps, 1, 1.5), 825);
  EXPECT_EQ(axis.step_at(0, 319), 0);
  EXPECT_EQ(axis.step_at(0, 320), 1);
  EXPECT_EQ(axis.step_at(0, 1000), 1);
}

TEST(Axis, AFasterRankLeavesTheRestOfItsStepEmpty) {
  const Axis axis(two_ranks());
  EXPECT_DOUBLE_EQ(axis.position(AxisMode::steps, 0, 260), 0.4);
  EXPECT_DOUBLE_EQ(axis.position(AxisMode::steps, 0, 320), 1);
  EXPECT_DOUBLE_EQ(axis.position(AxisMode::steps, 0, 495), 1.5);
  EXPECT_EQ(axis.time_at(AxisMode::steps, 0, 0.4), 260);
  // Its step is over, the next has not begun.
  EXPECT_EQ(axis.time_at(AxisMode::steps, 0, 0.75), 319);
  EXPECT_EQ(axis.step_at(0, axis.time_at(AxisMode::steps, 0, 0.999)), 0);
  EXPECT_EQ(axis.time_at(AxisMode::steps, 0, 1), 320);
  // After its last slice its time goes on.
  EXPECT_EQ(axis.time_at(AxisMode::steps, 0, 2), 670);
  EXPECT_DOUBLE_EQ(axis.position(AxisMode::steps, 0, 1000), 2);
}

// One scale in a column: whatever a slice does, its width there is its time there, and computations stay
// in their column. Only what follows a rank's last work in a pass may be cut off.
TEST(Axis, AColumnHasOneScaleAndHoldsItsComputations) {
  for (const Hops hops : {Hops::needed, Hops::all})
    for (const PartitionKind partition : {PartitionKind::contiguous, PartitionKind::striped})
      for (const bool backward : {false, true}) {
        Scenario scenario = simulated_scenario(8, partition, backward);
        scenario.job.hops = hops;
        const Trace trace = simulated_trace(scenario);
        const Axis axis(trace);
        for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
          const int rank = trace.rank_of_row(row);
          const auto& computed = trace.slices_of(rank, Lane::compute);
          for (const TraceEvent& slice : trace.slices(row)) {
            double shown_ns = 0;
            for (const auto& [from, to] : axis.places(AxisMode::steps, rank, slice)) {
              const int step = std::min(static_cast<int>(from), axis.steps() - 1);
              EXPECT_LE(to, step + 1.0);
              shown_ns += (to - from) * static_cast<double>(axis.step_length_ns(step));
              if (slice.lane == Lane::compute && slice.duration_ns() > 0) {
                EXPECT_EQ(step, axis_step(slice, axis.forward_steps()));
              }
            }
            const auto ns = static_cast<double>(slice.duration_ns());
            EXPECT_LE(shown_ns, ns + 1e-3);
            const bool is_cut =
                slice.end_ns > computed.back().end_ns || (slice.pass == Pass::forward && backward);
            if (slice.lane == Lane::compute || !is_cut) {
              EXPECT_NEAR(shown_ns, ns, 1e-3);
            }
          }
        }
        for (int step = 0; step < axis.steps(); ++step) {
          std::int64_t longest = 0;  // work of a rank
          for (int rank = 0; rank < 8; ++rank)
            for (const TraceEvent& slice : trace.slices_of(rank, Lane::compute))
              if (axis_step(slice, axis.forward_steps()) == step)
                longest = std::max(longest, slice.end_ns - axis.step_begin_ns(rank, step));
          EXPECT_GE(axis.step_length_ns(step), longest);
        }
      }
}

TEST(Axis, PositionsOutsideAreTakenToTheEnds) {
  const Axis axis(two_ranks());
  EXPECT_EQ(axis.position(AxisMode::steps, 0, -50), 0);
  EXPECT_EQ(axis.position(AxisMode::steps, 0, 5000), 2);
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    EXPECT_EQ(axis.time_at(mode, 0, -3), 0);
    EXPECT_EQ(axis.time_at(mode, 1, 1e9), 1000);
  }
}

TEST(Axis, BackwardStepsFollowForwardOnes) {
  const Axis axis(HandMade(2)
                      .compute(0, 0, 0, 10)
                      .compute(0, 1, 10, 20)
                      .compute(0, 0, 30, 40, 1, Pass::backward)
                      .wait(0, 0, 41, 44, Payload::dkv, Pass::backward)
                      .compute(0, 1, 50, 60, 1, Pass::backward)
                      .trace());
  EXPECT_EQ(axis.steps(), 4);
  EXPECT_EQ(axis.forward_steps(), 2);
  EXPECT_EQ(axis.step_begin_ns(0, 2), 30);
  // Waiting for a gradient belongs to the step before.
  EXPECT_EQ(axis.step_begin_ns(0, 3), 50);
}

// Steps that a rank attends nothing at share the time between its others. After its last it has none.
TEST(Axis, AStepThatWasNotRecordedLiesBetweenItsNeighbours) {
  // Rank 0 lacks steps 1 and 2 of four; rank 1 lacks everything.
  const Axis axis(
      HandMade(4).compute(0, 0, 0, 180).compute(0, 3, 300, 350).compute(2, 1, 100, 400).trace());
  EXPECT_EQ(axis.step_begin_ns(0, 1), 180);
  EXPECT_EQ(axis.step_begin_ns(0, 2), 240);
  EXPECT_EQ(axis.step_at(0, 179), 0);
  EXPECT_EQ(axis.step_at(1, 399), 0);
  EXPECT_EQ(axis.step_begin_ns(1, 4), 400);
  for (const std::int64_t ns : {250, 399, 400}) EXPECT_EQ(axis.step_at(2, ns), 1) << ns;
  for (int step = 2; step <= 4; ++step) EXPECT_EQ(axis.step_begin_ns(2, step), 400) << step;
}

TEST(Axis, StepsOutOfOrderDoNotMakeItGoBack) {
  const Axis axis(
      HandMade(3).compute(0, 0, 0, 10).compute(0, 2, 20, 30).compute(0, 1, 40, 50).trace());
  for (int step = 0; step < 3; ++step)
    EXPECT_LE(axis.step_begin_ns(0, step), axis.step_begin_ns(0, step + 1)) << step;
  double before = 0;
  for (int ns = 0; ns <= 50; ++ns) {
    const double position = axis.position(AxisMode::steps, 0, ns);
    EXPECT_GE(position, before) << ns;
    before = position;
  }
}

TEST(Axis, ATraceWithoutStepsHasTimeOnly) {
  Trace foreign = two_ranks();
  foreign.is_ring = false;
  const Axis axis(foreign);
  EXPECT_EQ(axis.steps(), 0);
  EXPECT_EQ(axis.length(AxisMode::steps), 0);
  EXPECT_EQ(axis.position(AxisMode::steps, 0, 500), 0);
  EXPECT_EQ(axis.length(AxisMode::time), 1000);

  const Axis empty{Trace{}};
  EXPECT_EQ(empty.length(AxisMode::time), 0);
  EXPECT_EQ(empty.length(AxisMode::steps), 0);
  EXPECT_EQ(empty.time_at(AxisMode::time, 0, 5), 0);
}

TEST(Axis, PositionsAndTimesAreInverseInRecordedRuns) {
  for_recorded_runs([](const Recording& recording, const std::string& what) {
    SCOPED_TRACE(what);
    const Trace trace = trace_of(recording);
    const Axis axis(trace);
    ASSERT_EQ(axis.steps(), recording.info.world_size *
                                (trace.is_ring && axis.steps() > axis.forward_steps() ? 2 : 1));
    for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
      const int rank = trace.rank_of_row(row);
      double before = 0;
      for (const TraceEvent& slice : trace.slices(row)) {
        for (const AxisMode mode : {AxisMode::time, AxisMode::steps})
          EXPECT_EQ(axis.time_at(mode, rank, axis.position(mode, rank, slice.begin_ns)),
                    slice.begin_ns);
        const double position = axis.position(AxisMode::steps, rank, slice.begin_ns);
        EXPECT_GE(position, before);
        before = position;
        if (slice.lane != Lane::compute) continue;
        const int step = slice.step + (slice.pass == Pass::backward ? axis.forward_steps() : 0);
        EXPECT_EQ(axis.step_at(rank, slice.begin_ns), step);
      }
    }
  });
}

}  // namespace axis_test
}  // namespace ringscope::viz
