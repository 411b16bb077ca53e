// What a slice says of its step and owner is what the scheme's loop asks for, whoever made the recording.
#include <gtest/gtest.h>

#include "core/ring/loop_counts.h"
#include "core/threads/run.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/balance.h"
#include "core/tools/sim/graph.h"
#include "core/tools/sim/recording.h"
#include "core/trace/summary.h"
#include "tests/core/attention/random_problem.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/crossings/drawn_run.h"

namespace ringscope {
namespace {

using Place = std::pair<int, int>;  // step and owner

std::vector<TraceEvent> in_order(std::vector<TraceEvent> events, Lane lane, Pass pass) {
  std::erase_if(events, [&](const TraceEvent& e) { return e.lane != lane || e.pass != pass; });
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return std::pair(a.begin_ns, a.end_ns) < std::pair(b.begin_ns, b.end_ns);
  });
  return events;
}

// A wait has the place of what its rank attends next in the pass, and none where nothing follows.
void expect_waits_name_what_follows(const Recording& recording) {
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
    for (const Pass pass : kAllPasses) {
      const auto attended = in_order(recording.events[rank], Lane::compute, pass);
      for (const TraceEvent& wait : in_order(recording.events[rank], Lane::wait, pass)) {
        // Slices of no length may share their begin with what comes before or after them.
        bool named = false;
        const auto first = std::find_if(attended.begin(), attended.end(), [&](const TraceEvent& e) {
          return e.begin_ns >= wait.end_ns;
        });
        auto last = first;
        while (last != attended.end() && last->begin_ns == last->end_ns) ++last;
        if (last == attended.end()) named = wait.step == -1 && wait.kv_owner == -1;
        for (auto next = first; !named && next != attended.end() && next <= last; ++next)
          named = Place(wait.step, wait.kv_owner) == Place(next->step, next->kv_owner);
        ASSERT_TRUE(named) << "rank " << rank << ", " << name_of(pass) << ": a wait until "
                           << wait.end_ns << " ns for step " << wait.step << ", owner "
                           << wait.kv_owner;
      }
    }
}

// Where heads divide, a simulated exchange of heads is one message and one computation a rank, and what
// is foreseen of its bytes is that of libraries, which send the outputs as they are stored.
bool is_followed_block_by_block(const Problem& job) {
  return job.world_size == 1 || has_paces(job) || is_followed(job);
}

void expect_slices_of_program(const Problem& job, const Recording& recording) {
  for (int rank = 0; rank < job.world_size; ++rank) {
    const LoopCounts program = count_loop(job, rank);
    const auto& events = recording.events[static_cast<std::size_t>(rank)];
    for (const Pass pass : kAllPasses) {
      std::vector<Place> asked, made;
      for (const StepInfo& step : program.attended)
        if (step.pass == pass) asked.emplace_back(step.step, step.kv_owner);
      for (const TraceEvent& e : in_order(events, Lane::compute, pass))
        made.emplace_back(e.step, e.kv_owner);
      // Slices of no length may stand in any order.
      if (std::any_of(events.begin(), events.end(), [](const TraceEvent& e) {
            return e.lane == Lane::compute && e.begin_ns == e.end_ns;
          }))
        std::sort(asked.begin(), asked.end()), std::sort(made.begin(), made.end());
      ASSERT_EQ(made, asked) << "rank " << rank << ", " << name_of(pass);
    }
    double sent = 0;
    int messages = 0;
    for (const TraceEvent& e : events)
      if (e.lane == Lane::send) sent += static_cast<double>(e.bytes), ++messages;
    ASSERT_EQ(sent, program.forward_bytes + program.backward_bytes) << "rank " << rank;
    ASSERT_EQ(messages, program.messages) << "rank " << rank;
    ASSERT_LE(events.size(), program.events + 4) << "rank " << rank;
    if (is_followed_block_by_block(job)) {
      ASSERT_NEAR(sent, traffic_of(job, rank).bytes(), 1e-9 * sent) << "rank " << rank;
    }
  }
}

TEST(Slices, OfSimulationsAreThoseOfTheProgram) {
  DrawnRuns runs(1);
  int compared = 0;
  for (int i = 0; i < drawn_runs(); ++i) {
    const Scenario drawn = runs.next();
    SCOPED_TRACE(text_of(drawn));
    const Recording recording = record(drawn, drawn.job.world_size).recording;
    expect_waits_name_what_follows(recording);
    expect_every_send_has_its_receive(recording);
    if (is_followed_block_by_block(drawn.job))
      ++compared, expect_slices_of_program(drawn.job, recording);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(compared, drawn_runs() / 2);
  RecordProperty("runs", drawn_runs());
}

// What a simulation says of a run. Slices of a run have whole pairs. Of an exchange of heads where they
// divide, the bytes foreseen are those of libraries (see above).
void expect_simulated(const Scenario& drawn, const RunSummary& summary) {
  const Simulation simulated = simulate({drawn.job, drawn.pace}, work_of(drawn), machine_of(drawn));
  const int n = drawn.job.world_size;
  double rounding = 0;  // of the pairs, as a share of them
  for (std::size_t rank = 0; rank < simulated.ranks.size(); ++rank) {
    const RankSummary& of_run = summary.ranks[rank];
    const SimulatedRank& found = simulated.ranks[rank];
    EXPECT_EQ(found.hops, of_run.hops) << "rank " << rank;
    if (is_followed_block_by_block(drawn.job)) {
      EXPECT_EQ(found.bytes_sent, static_cast<double>(of_run.bytes_sent)) << "rank " << rank;
    }
    const bool shares_heads = drawn.job.layout().head_shares() > 1;
    EXPECT_NEAR(found.pairs, static_cast<double>(of_run.pairs), shares_heads ? n * n : 1e-6);
    if (shares_heads) rounding = std::max(rounding, 2.0 * n * n / std::max(1.0, found.pairs));
  }
  EXPECT_NEAR(simulated.imbalance(), summary.imbalance, 1e-12 + rounding * summary.imbalance);
  EXPECT_NEAR(simulated.balance_ceiling(), summary.balance_ceiling, 1e-12 + rounding);
}

// What closed forms say of a run: its FLOPs, its memory, and the balance of steps that all ranks have.
void expect_foreseen(const Problem& job, const RingRun& run) {
  const RunSummary summary = summarize(run.recording);
  double flops[2] = {}, peak = 0;
  for (const auto& events : run.recording.events)
    for (const TraceEvent& e : events)
      if (e.lane == Lane::compute) flops[static_cast<int>(e.pass)] += static_cast<double>(e.flops);
  const double pairs = total_pairs(job);
  EXPECT_EQ(flops[0], flops_of_pairs(job.shape, pairs, Pass::forward));
  EXPECT_EQ(flops[1], job.backward ? flops_of_pairs(job.shape, pairs, Pass::backward) : 0);
  for (const Index bytes : run.peak_bytes) peak = std::max(peak, static_cast<double>(bytes));
  EXPECT_EQ(run.peak_bytes, run.predicted_bytes);
  if (!is_plain(job)) return;
  EXPECT_EQ(peak_bytes(job), peak);
  const Balance balance = balance_of(job);
  EXPECT_FALSE(balance.sampled);
  ASSERT_EQ(std::ssize(balance.steps), job.world_size);
  for (std::size_t step = 0; step < balance.steps.size(); ++step) {
    Index slowest = 0;
    for (const RankSummary& rank : summary.ranks)
      slowest = std::max(slowest, rank.pairs_by_step[step]);
    EXPECT_EQ(balance.steps[step].slowest, static_cast<double>(slowest)) << "step " << step;
    EXPECT_EQ(balance.steps[step].has_hop, step + 1 < balance.steps.size());
  }
  EXPECT_NEAR(balance.ceiling(), summary.balance_ceiling, 1e-12);
  EXPECT_NEAR(balance.imbalance(), summary.imbalance, 1e-12);
}

TEST(Slices, OfRunsAreThoseOfTheProgram) {
  DrawnRuns runs(2);
  for (int i = 0; i < drawn_runs() / 4; ++i) {
    Scenario drawn = runs.next();
    Problem& job = drawn.job;
    if (i % 3 == 0) job.shape.num_heads = 9, job.shape.num_heads_kv = 3;  // that few ranks divide
    SCOPED_TRACE(text_of(drawn));
    const Tensors<float> in = random_tensors(job.shape, static_cast<unsigned>(i));
    const RingRun run = run_on_threads(job, {in.q, in.k, in.v, in.dout});
    expect_waits_name_what_follows(run.recording);
    expect_slices_of_program(job, run.recording);
    expect_foreseen(job, run);
    expect_simulated(drawn, summarize(run.recording));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ringscope
