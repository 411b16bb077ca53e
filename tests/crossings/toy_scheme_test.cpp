// A scheme that is only here: a file with a loop and a Scheme, as CONTRIBUTING.md has it. It runs, is
// recorded, counted, billed and simulated without another line.
#include <gtest/gtest.h>

#include "core/ring/loop_counts.h"
#include "core/ring/schemes.h"
#include "core/threads/run.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/sim/recording.h"
#include "core/trace/summary.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope {
namespace {

// The ring the other way around: rank r sends to r - 1, and attends the block of owner (r + t) mod N at
// step t. Blocks alternate between the ring's two buffers.
struct Turned {
  Communicator& comm;
  const RingProblem& problem;
  RankMemory& mine;

  int at(int distance) const { return (comm.rank() + distance) % comm.world_size(); }
  KvBlock block(int step) const { return {mine.kv_at_step(step), problem.rows(at(step))}; }
  Route route() const { return {Way::ring, at(comm.world_size() - 1), at(1)}; }
  // Bring the next step's block, once the buffer that it comes to is free.
  Completion bring(Pass pass, int step, const Completion& arrived, const Completion& free) const {
    const int next = step + 1;
    return comm.exchange(
        hop_of(pass, Payload::kv, step,
               {at(step), mine.kv_at_step(step), problem.kv_bytes(at(step))},
               {at(next), mine.kv_at_step(next), problem.kv_bytes(at(next))}, route()),
        {arrived, free});
  }
};

void turned_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                    RankMemory& mine) {
  const Turned ring{comm, problem, mine};
  const int last = comm.world_size() - 1;
  const QueryBlock q = mine.query_block();
  backend.begin(q, mine.softmax_state());
  Completion arrived, attended;
  for (int step = 0; step <= last; ++step) {
    const Completion next =
        step < last ? ring.bring(Pass::forward, step, arrived, attended) : Completion();
    const int owner = ring.at(step);
    attended = backend.attend({Pass::forward, step, owner, step == last},
                              problem.region(comm.rank(), owner), q, ring.block(step),
                              mine.softmax_state(), arrived);
    arrived = next;
  }
  backend.finish(q, mine.softmax_state());
}

// Gradients follow their blocks, one step behind.
KvGradient turned_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine) {
  const Turned ring{comm, problem, mine};
  const int last = comm.world_size() - 1;
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  Completion attended = backend.begin_backward(q, state), arrived, gradient_arrived;
  for (int step = 0; step <= last; ++step) {
    const Completion next =
        step < last ? ring.bring(Pass::backward, step, arrived, attended) : Completion();
    const int owner = ring.at(step), next_owner = ring.at(step + 1);
    const StepInfo info{Pass::backward, step, owner, step == last};
    const KvGradient gradient{mine.gradient_at_step(step), problem.rows(owner)};
    Completion summed = attended = backend.attend_backward(
        info, problem.region(comm.rank(), owner), q, ring.block(step), state, gradient, arrived);
    if (step > 0)
      summed =
          backend.add(info, gradient, {mine.incoming_gradient(), gradient.rows}, gradient_arrived);
    gradient_arrived = comm.exchange(
        hop_of(Pass::backward, Payload::dkv, step,
               {owner, gradient.data, problem.gradient_bytes(owner)},
               {next_owner, mine.incoming_gradient(), problem.gradient_bytes(next_owner)},
               ring.route()),
        {summed});
    arrived = next;
  }
  backend.finish_backward({Pass::backward, last, comm.rank(), true}, q, state, gradient_arrived);
  return {mine.incoming_gradient(), q.rows};
}

const Scheme kTurned{.name = "turned", .loop = [](const RingProblem&) {
                       return Loop{turned_forward, turned_backward};
                     }};

Problem turned_job(int world_size) {
  Problem job;
  job.shape = {.batch = 1, .num_heads = 4, .num_heads_kv = 2, .seqlen = 61, .head_dim = 8};
  job.mask = MaskSpec::parse("causal");
  job.partition = PartitionKind::zigzag;
  job.world_size = world_size;
  job.scheme = &kTurned;
  job.backward = true;
  return job;
}

TEST(ToyScheme, RunsAndIsForeseen) {
  for (const int world_size : {1, 2, 3, 5}) {
    const Problem job = turned_job(world_size);
    SCOPED_TRACE(world_size);
    const Tensors<float> in = random_tensors(job.shape, 3);
    const RingRun run = run_on_threads(job, {in.q, in.k, in.v, in.dout});
    Problem alone = job;
    alone.world_size = 1;
    const RingRun expected = run_on_threads(alone, {in.q, in.k, in.v, in.dout});
    for (const auto output : {&AttentionOutputs::out, &AttentionOutputs::lse, &AttentionOutputs::dq,
                              &AttentionOutputs::dk, &AttentionOutputs::dv}) {
      const auto &got = run.outputs.*output, &right = expected.outputs.*output;
      ASSERT_EQ(got.size(), right.size());
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], right[i], 1e-5);
    }

    EXPECT_EQ(run.peak_bytes, run.predicted_bytes);
    const RunSummary summary = summarize(run.recording);
    for (int rank = 0; rank < world_size; ++rank) {
      const RankSummary& mine = summary.ranks[static_cast<std::size_t>(rank)];
      const LoopCounts counts = count_loop(job, rank);
      EXPECT_EQ(mine.pairs_by_step, counts.pairs_by_step);
      EXPECT_EQ(static_cast<double>(mine.bytes_sent), traffic_of(job, rank).bytes());
    }
  }
}

// On links that are alike it takes as long as the ring whose direction it turns.
TEST(ToyScheme, IsSimulated) {
  Scenario turned, ring;
  turned.job = ring.job = turned_job(4);
  ring.job.scheme = default_scheme();
  turned.pace = ring.pace = Pace::buffers;
  turned.rates = ring.rates = {
      .forward_flops = 1e9, .backward_flops = 1e9, .bytes_per_s = 1e9, .latency_s = 1e-6};
  const auto simulated = [](const Scenario& scenario) {
    return simulate({scenario.job, scenario.pace}, work_of(scenario), machine_of(scenario));
  };
  EXPECT_NEAR(simulated(turned).wall_s(), simulated(ring).wall_s(),
              0.05 * simulated(ring).wall_s());
  const Recording recording = record(turned).recording;
  EXPECT_EQ(recording.info.scheme, "turned");
}

}  // namespace
}  // namespace ringscope
