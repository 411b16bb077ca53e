// The ring on threads: the gain of two ranks over one and of zigzag over contiguous, both taken in
// turn within each iteration of one run; and the cost of recording.
//
// A figure for N ranks means something only on a machine with at least N idle cores.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <thread>

#include "core/ring/cpu_backend.h"
#include "core/ring/ring.h"
#include "core/ring/thread_communicator.h"
#include "core/run/generated_rows.h"
#include "core/run/recording.h"
#include "core/run/run.h"

namespace ringscope {
namespace {

// Arguments: world_size, seqlen, backward. The mask is causal and the partition zigzag.
void BM_RingScaling(benchmark::State& state) {
  Problem config;
  config.world_size = static_cast<int>(state.range(0));
  config.shape.seqlen = state.range(1);
  config.shape.head_dim = 64;
  config.mask = MaskSpec::parse("causal");
  config.backward = state.range(2) != 0;
  const AttentionInputs inputs = random_inputs(config.shape);
  const auto wall_s = [&](int world_size, PartitionKind partition) {
    Problem one = config;
    one.world_size = world_size;
    one.partition = partition;
    return run_on_threads(one, inputs).wall_s;
  };
  wall_s(config.world_size, PartitionKind::zigzag);
  double alone = 0, zigzag = 0, contiguous = 0;
  for (auto _ : state) {
    alone += wall_s(1, PartitionKind::zigzag);
    const double time = wall_s(config.world_size, PartitionKind::zigzag);
    contiguous += wall_s(config.world_size, PartitionKind::contiguous);
    zigzag += time;
    state.SetIterationTime(time);
  }
  state.counters["efficiency"] = alone / (config.world_size * zigzag);
  state.counters["over_contiguous"] = contiguous / zigzag;
  state.counters["cores"] = std::thread::hardware_concurrency();
}
BENCHMARK(BM_RingScaling)
    ->ArgNames({"world_size", "seqlen", "backward"})
    ->Args({2, 16384, 0})
    ->Args({2, 16384, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

void BM_RecordEvent(benchmark::State& state) {
  constexpr std::size_t kCapacity = 1 << 16;
  TraceEvent event;
  while (state.KeepRunningBatch(kCapacity)) {
    state.PauseTiming();
    Recorder recorder(kCapacity, 0, 0);
    state.ResumeTiming();
    for (std::size_t i = 0; i < kCapacity; ++i) {
      event.step = static_cast<std::int32_t>(i);
      recorder.record(event);
    }
    benchmark::DoNotOptimize(recorder.events().data());
  }
  state.counters["per_event"] =
      benchmark::Counter(static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_RecordEvent);

// Run the ring loop of one rank with and without the decorators, many short steps. `recording_cost`
// is the share of time that the decorators add. Arguments: rows.
void BM_RecordingCost(benchmark::State& state) {
  const Index rows = state.range(0);
  const Problem job{.shape = {1, 1, 1, rows, 64},
                    .mask = MaskSpec::parse("causal"),
                    .partition = PartitionKind::zigzag};
  const RingProblem problem = job.ring_problem();
  RankMemory memory(job, 0);
  std::fill(memory.q.begin(), memory.q.end(), std::byte{0});
  std::fill_n(memory.own_kv(), problem.kv_bytes(0), std::byte{0});
  CpuBackend plain(problem.params, false, nullptr);
  ThreadRing ring(1);
  ThreadCommunicator comm(ring, 0);
  Recorder recorder(1 << 20, 1 << 20, monotonic_ns());
  RecordingBackend recording(plain, recorder, problem.params, {0, 1}, {});
  RecordingCommunicator recording_comm(comm, recorder, 1);

  const auto time = [](auto&& f) {
    const std::int64_t begin = monotonic_ns();
    f();
    return static_cast<double>(monotonic_ns() - begin);
  };
  double bare = 0, recorded = 0;
  for (auto _ : state) {
    bare += time([&] { ring_forward(comm, plain, problem, memory); });
    const double with = time([&] { ring_forward(recording_comm, recording, problem, memory); });
    recorded += with;
    state.SetIterationTime(with * 1e-9);
  }
  state.counters["recording_cost"] = recorded / bare - 1;
  state.counters["dropped"] = static_cast<double>(recorder.dropped());
}
BENCHMARK(BM_RecordingCost)->ArgName("rows")->Arg(512)->Arg(2048)->UseManualTime();

}  // namespace
}  // namespace ringscope

BENCHMARK_MAIN();
