// The ring of two MPI processes against that of two threads, in turn and in one run: the costs of
// the progress thread and the messages. Started alone, it starts itself again under mpirun, with
// processes that are not bound to cores, as threads are not; it also runs under another launcher.
//
//   of_threads   time of the thread ring / time of the MPI ring: its share of the throughput
//   median_of    the same ratio of the medians
//   exposed      most transfer time during which a rank did not compute / run time
//   waited       most time that a rank waited for blocks / run time
//   polling      processor time of the process outside of compute slices / run time
//   startup_s    from before MPI_Init to the first message of the first run, on the slowest rank
//
// All but median_of are of the fastest run of each kind, because other work on the machine only
// adds time. Still, a figure for two ranks means little on a machine without two idle cores.

#include <benchmark/benchmark.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/mpirun.h"
#include "core/mpi/run_on_mpi.h"
#include "core/run/generated_rows.h"
#include "core/trace/recorder.h"
#include "core/trace/summary.h"

namespace ringscope {
namespace {

constexpr int kRanks = 2;

MpiSession* session = nullptr;
double startup_s = 0;

Problem config_for(Index seqlen, bool backward) {
  Problem config;
  config.world_size = kRanks;
  config.shape.seqlen = seqlen;
  config.shape.head_dim = 64;
  config.mask = MaskSpec::parse("causal");
  config.partition = PartitionKind::zigzag;
  config.backward = backward;
  return config;
}

RingRun run_mpi(const Problem& config, const AttentionInputs& inputs) {
  WholeInputs source(config.shape, inputs);
  ProcessInputs from;
  from.generated = &source;
  return run_on_mpi(*session, config, from, false);
}

// Run on threads that may use all cores, whatever the launcher has bound this process to.
double run_threads(const Problem& config, const AttentionInputs& inputs) {
  cpu_set_t bound, all;
  sched_getaffinity(0, sizeof bound, &bound);
  CPU_ZERO(&all);
  for (int core = 0; core < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); ++core)
    CPU_SET(core, &all);
  sched_setaffinity(0, sizeof all, &all);
  const double wall_s = run_on_threads(config, inputs).wall_s;
  sched_setaffinity(0, sizeof bound, &bound);
  return wall_s;
}

double processor_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// Arguments: seqlen, backward. The mask is causal and the partition zigzag.
void BM_MpiRing(benchmark::State& state) {
  const Problem config = config_for(state.range(0), state.range(1) != 0);
  const AttentionInputs inputs = random_inputs(config.shape);
  run_mpi(config, inputs);
  std::vector<double> threads, processes;
  for (auto _ : state) {
    // The other ranks go on to the next run, where they wait without using a core.
    if (session->rank() == 0) threads.push_back(run_threads(config, inputs));
    const double before_s = processor_s();
    const RingRun run = run_mpi(config, inputs);
    const double used_s = processor_s() - before_s;
    state.SetIterationTime(session->rank() == 0 ? run.wall_s : 1);
    if (session->rank() != 0) continue;
    processes.push_back(run.wall_s);
    if (run.wall_s > *std::ranges::min_element(processes)) continue;
    const RunSummary summary = summarize(run.recording);
    double waited_s = 0;
    for (const RankSummary& rank : summary.ranks) waited_s = std::max(waited_s, rank.wait_s);
    state.counters["exposed"] = summary.exposed_s / run.wall_s;
    state.counters["waited"] = waited_s / run.wall_s;
    state.counters["polling"] = (used_s - summary.ranks[0].compute_cpu_s) / run.wall_s;
  }
  if (session->rank() != 0) return;
  std::ranges::sort(threads);
  std::ranges::sort(processes);
  const std::size_t middle = threads.size() / 2;
  state.counters["of_threads"] = threads[0] / processes[0];
  state.counters["median_of"] = threads[middle] / processes[middle];
  state.counters["startup_s"] = startup_s;
}
BENCHMARK(BM_MpiRing)
    ->ArgNames({"seqlen", "backward"})
    ->Args({16384, 0})
    ->Args({16384, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(15);

// Run a small ring, and measure from `begin_ns` until its first message leaves.
void measure_startup(std::int64_t begin_ns) {
  const Problem config = config_for(64, false);
  const std::int64_t base_ns = monotonic_ns();
  const RingRun run = run_mpi(config, random_inputs(config.shape));
  double first_s = 0;
  if (session->rank() == 0)
    for (const auto& events : run.recording.events)
      for (const TraceEvent& event : events)
        if (event.lane == Lane::send)
          first_s = std::max(first_s, static_cast<double>(event.begin_ns) * 1e-9);
  startup_s = static_cast<double>(base_ns - begin_ns) * 1e-9 + first_s;
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  using namespace ringscope;
  const std::int64_t begin_ns = monotonic_ns();
  return mpi_benchmark_main(kRanks, argc, argv, [&](MpiSession& of_process) {
    session = &of_process;
    measure_startup(begin_ns);
  });
}
