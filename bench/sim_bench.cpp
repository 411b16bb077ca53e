// Measures how many (rank, step)s per second the simulator processes on one core.
#include <benchmark/benchmark.h>

#include "core/tools/sim/simulate.h"

namespace ringscope {
namespace {

struct Setting {
  Pace pace = Pace::in_step;
  int kv_buffers = 2;
  bool backward = false;
  double jitter = 0;
  const char* scheme = "ring";
};

void simulated(benchmark::State& state, const char* mask, PartitionKind partition,
               const Setting& setting) {
  const int n = static_cast<int>(state.range(0));
  const Problem job{.shape = {1, 32, 8, Index{n} * 1024 + 7, 128},
                    .dtype = DType::bf16,
                    .mask = MaskSpec::parse(mask),
                    .partition = partition,
                    .world_size = n,
                    .scheme = scheme_named(setting.scheme),
                    .backward = setting.backward,
                    .kv_buffers = setting.kv_buffers};
  Machine machine;
  machine.world_size = n;
  machine.rates = {6e14, 5e14, 4e11, 2e-6};
  machine.jitter = setting.jitter;
  machine.hop_jitter = setting.jitter;
  double steps = 0;
  for (auto _ : state) {
    // The time includes counting the pairs.
    Simulation simulation = simulate({.job = job, .pace = setting.pace}, Work(job), machine);
    benchmark::DoNotOptimize(simulation.forward_s);
    steps += static_cast<double>(simulation.steps);
  }
  state.counters["rank_steps_per_s"] = benchmark::Counter(steps, benchmark::Counter::kIsRate);
}

const Setting kInStep, kBuffers{Pace::buffers}, kFour{Pace::buffers, 4};
const Setting kJitter{Pace::buffers, 2, false, 0.1};
const Setting kBackward{Pace::buffers, 2, true}, kBackwardInStep{Pace::in_step, 2, true};
const Setting kBackwardJitter{Pace::buffers, 4, true, 0.1};
const Setting kGather{Pace::in_step, 2, true, 0, "allgather"};
const char* const kDocuments = "causal+documents:600000,448583";

#define RINGSCOPE_CASE(name, ...) \
  BENCHMARK_CAPTURE(simulated, name, __VA_ARGS__)->Arg(1024)->Unit(benchmark::kMillisecond)

RINGSCOPE_CASE(full_in_step, "full", PartitionKind::contiguous, kInStep);
RINGSCOPE_CASE(zigzag_in_step, "causal", PartitionKind::zigzag, kInStep);
RINGSCOPE_CASE(zigzag_in_step_backward, "causal", PartitionKind::zigzag, kBackwardInStep);
RINGSCOPE_CASE(zigzag_buffers, "causal", PartitionKind::zigzag, kBuffers);
RINGSCOPE_CASE(zigzag_four_buffers, "causal", PartitionKind::zigzag, kFour);
RINGSCOPE_CASE(zigzag_window, "causal+window:40000", PartitionKind::zigzag, kBuffers);
RINGSCOPE_CASE(zigzag_documents, kDocuments, PartitionKind::zigzag, kBuffers);
RINGSCOPE_CASE(zigzag_jitter, "causal", PartitionKind::zigzag, kJitter);
RINGSCOPE_CASE(zigzag_backward, "causal", PartitionKind::zigzag, kBackward);
RINGSCOPE_CASE(zigzag_backward_jitter, "causal", PartitionKind::zigzag, kBackwardJitter);
RINGSCOPE_CASE(contiguous_buffers, "causal", PartitionKind::contiguous, kBuffers);
RINGSCOPE_CASE(striped_buffers, "causal", PartitionKind::striped, kBuffers);
RINGSCOPE_CASE(fold_buffers, "causal", PartitionKind::fold, kBuffers);
RINGSCOPE_CASE(striped_documents, kDocuments, PartitionKind::striped, kBuffers);
RINGSCOPE_CASE(zigzag_allgather, "causal", PartitionKind::zigzag, kGather);

}  // namespace
}  // namespace ringscope

BENCHMARK_MAIN();
