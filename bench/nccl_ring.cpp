// Measures the ring over NCCL on all GPUs of this machine, or of several: its speed and its losses.
//
//   nccl_ring [--world-size N] [--rows C] [--benchmark_...]     one thread per rank, one machine
//   mpirun -np N nccl_ring ...                                 one process per rank
//
// Without --world-size, there are as many ranks as GPUs. More ranks than GPUs share them slowly,
// which is only good for checking this program. If NCCL then needs one process per rank, this
// program starts itself again under mpirun. The problem is bf16, head_dim 128, 32 heads, 8 kv
// heads, causal, with C rows per rank (8192).
//
//   tokens_per_s   positions / wall time
//   TFLOPs         per GPU, by 4 (forward) and 10 (backward) x pairs x head_dim
//   of_one_GPU     TFLOPs / those of one GPU alone on a sequence of C rows, in this run
//   exposed        most transfer time during which a rank did not compute / wall time
//   compute_only   wall time without transfers / wall time
//   transfer_only  wall time without compute / wall time
//   slowest_s      compute time of the slowest rank
//
// Every iteration makes the three kinds of run in turn. The program ends by printing what this
// machine has no means to measure.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu_timing.h"
#include "bench/nccl_ranks.h"
#include "core/trace/summary.h"
#include "cuda/base/device_info.h"
#include "cuda/ring/run_on_gpu.h"

namespace ringscope::cuda {
namespace {

constexpr int kIterations = 5;

struct Options {
  int world_size = 0;  // 0: as many as GPUs
  Index rows = 8192;
};

Problem config_for(int world_size, Index rows, PartitionKind partition, Scheme scheme,
                   bool backward) {
  Problem config;
  config.shape = {1, 32, 8, rows * world_size, 128};
  config.dtype = DType::bf16;
  config.mask = MaskSpec::parse("causal");
  config.partition = partition;
  config.scheme = scheme;
  config.world_size = world_size;
  config.backward = backward;
  config.timeout_s = kRanksTimeoutS;
  return config;
}

double flops_of(const Problem& config) {
  double pairs = 0;
  for (int rank = 0; rank < config.world_size; ++rank)
    for (int step = 0; step < config.world_size; ++step)
      pairs += static_cast<double>(predicted_pairs(config, rank, step));
  return (config.backward ? 14 : 4) * pairs * static_cast<double>(config.shape.head_dim) *
         static_cast<double>(config.shape.batch * config.shape.num_heads);
}

// Return TFLOP/s of one GPU alone, by compute time.
double one_gpu_tflops(Index rows, bool backward) {
  static std::map<std::pair<Index, bool>, double> known;
  double& tflops = known[{rows, backward}];
  if (tflops > 0) return tflops;
  const Problem config = config_for(1, rows, PartitionKind::contiguous, Scheme::ring, backward);
  const AttentionInputs inputs = cheap_inputs(config.shape);
  for (int i = 0; i < 3; ++i) {
    const RunSummary summary = summarize(run_on_gpu(config, inputs).recording);
    tflops = std::max(tflops, flops_of(config) * 1e-12 / summary.ranks[0].compute_s);
  }
  return tflops;
}

struct Sums {
  double wall = 0, compute_only = 0, transfer_only = 0, exposed = 0, slowest = 0;
};

void report(benchmark::State& state, const Problem& config, const Sums& sums, double of_one) {
  const double n = static_cast<double>(state.iterations());
  const double tflops = flops_of(config) * 1e-12 * n / (sums.wall * config.world_size);
  state.counters["tokens_per_s"] =
      static_cast<double>(config.shape.batch * config.shape.seqlen) * n / sums.wall;
  state.counters["TFLOPs"] = tflops;
  state.counters["of_one_GPU"] = tflops / of_one;
  state.counters["exposed"] = sums.exposed / sums.wall;
  state.counters["slowest_s"] = sums.slowest / n;
  if (sums.compute_only > 0) state.counters["compute_only"] = sums.compute_only / sums.wall;
  if (sums.transfer_only > 0) state.counters["transfer_only"] = sums.transfer_only / sums.wall;
}

void add_run(const RingRun& run, Sums& sums) {
  const RunSummary summary = summarize(run.recording);
  sums.wall += run.wall_s;
  sums.exposed += summary.exposed_s;
  double slowest = 0;
  for (const RankSummary& rank : summary.ranks) slowest = std::max(slowest, rank.compute_s);
  sums.slowest += slowest;
}

void measure(benchmark::State& state, const Ranks& ranks, const Problem& config, Index rows) {
  for (const Half half : {Half::both, Half::compute, Half::communication}) ranks.run(config, half);
  const double of_one = ranks.is_first ? one_gpu_tflops(rows, config.backward) : 1;
  Sums sums;
  for (auto _ : state) {
    const RingRun whole = ranks.run(config, Half::both);
    const double compute = ranks.run(config, Half::compute).wall_s;
    const double transfer = ranks.run(config, Half::communication).wall_s;
    state.SetIterationTime(ranks.is_first ? whole.wall_s : 1);
    if (!ranks.is_first) continue;
    add_run(whole, sums);
    sums.compute_only += compute;
    sums.transfer_only += transfer;
  }
  if (ranks.is_first) report(state, config, sums, of_one);
}

// Measure the same blocks moved by copy engines; only on threads, with one GPU per rank.
void measure_copies(benchmark::State& state, const Problem& config, Index rows) {
  const AttentionInputs inputs = cheap_inputs(config.shape);
  const auto run = [&] {
    GpuOptions options;
    options.gpus = config.world_size;
    options.take_turns = false;
    return run_on_gpu(config, inputs, {}, options);
  };
  run();
  const double of_one = one_gpu_tflops(rows, config.backward);
  Sums sums;
  for (auto _ : state) {
    const RingRun done = run();
    state.SetIterationTime(done.wall_s);
    add_run(done, sums);
  }
  report(state, config, sums, of_one);
}

template <class Body>
void add(const std::string& name, Body body) {
  benchmark::RegisterBenchmark(name.c_str(), body)
      ->Iterations(kIterations)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void add_benchmarks(const Ranks& ranks, Index rows) {
  const int n = ranks.world_size;
  for (const bool backward : {false, true}) {
    const std::string pass = backward ? "/with_backward" : "/forward";
    for (const auto& [partition, scheme] : {std::pair{PartitionKind::zigzag, Scheme::ring},
                                            {PartitionKind::contiguous, Scheme::ring},
                                            {PartitionKind::zigzag, Scheme::allgather}}) {
      const Problem config = config_for(n, rows, partition, scheme, backward);
      add("nccl/" + std::string(name_of(scheme)) + "/" + std::string(name_of(partition)) + pass,
          [=, &ranks](benchmark::State& state) {
            const auto body = [&] { measure(state, ranks, config, rows); };
            ranks.on_threads ? guarded(state, body) : body();  // an error ends a job's processes
          });
      if (n == 1) break;
    }
    if (!ranks.on_threads || n == 1 || ranks.placement.shares_gpus) continue;
    const Problem config = config_for(n, rows, PartitionKind::zigzag, Scheme::ring, backward);
    add("copy_engines/ring/zigzag" + pass, [=](benchmark::State& state) {
      guarded(state, [&] { measure_copies(state, config, rows); });
    });
  }
}

void say_what_was_not_measured(int gpus, const Ranks& ranks) {
  const auto say = [](const char* text) { std::printf("not measured: %s\n", text); };
  if (ranks.placement.shares_gpus)
    say("speed between GPUs: ranks share a GPU here, and its time; the figures above are no "
        "ring's");
  if (ranks.world_size == 1)
    say("anything of a ring: with one rank no block moves (--world-size N for more)");
  if (gpus < 2) say("NVLink and PCIe between GPUs, copy engines between GPUs: there is one GPU");
  if (gpus >= 2 && !ranks.on_threads) say("copy engines: they need all ranks in one process");
  say("links between machines, unless mpirun has started ranks on several");
}

// Run the registered benchmarks. Where `prints` is false, as on all ranks but the first, print
// nothing.
void run_registered_benchmarks(bool prints) {
  class Silence : public benchmark::BenchmarkReporter {
   public:
    bool ReportContext(const Context&) override { return true; }
    void ReportRuns(const std::vector<Run>&) override {}
  } silence;
  prints ? benchmark::RunSpecifiedBenchmarks() : benchmark::RunSpecifiedBenchmarks(&silence);
}

int measure(const Ranks& ranks, const Options& options) {
  int gpus = 0;
  static_cast<void>(cudaGetDeviceCount(&gpus));
  benchmark::AddCustomContext("gpu", to_string(*query_device().device));
  benchmark::AddCustomContext("gpus", std::to_string(gpus));
  benchmark::AddCustomContext("nccl", nccl_version_text(nccl_version()));
  benchmark::AddCustomContext("ranks", std::to_string(ranks.world_size) +
                                           (ranks.on_threads ? " threads" : " processes") +
                                           (ranks.placement.shares_gpus ? ", sharing GPUs" : ""));
  add_benchmarks(ranks, options.rows);
  run_registered_benchmarks(ranks.is_first);
  if (ranks.is_first) say_what_was_not_measured(gpus, ranks);
  benchmark::Shutdown();
  return 0;
}

int skip(const std::string& why) {
  std::printf("skipped: %s\nnot measured: anything\n", why.c_str());
  return 0;
}

#ifdef RINGSCOPE_HAS_MPI

// Execute mpirun, with processes that are not bound to cores, because threads are not either. Return
// only if there is none.
void restart_under_mpirun(int ranks, const std::vector<std::string>& arguments) {
  const std::string count = std::to_string(ranks);
  std::vector<const char*> words = {"mpirun",          "--bind-to", "none",
                                    "--oversubscribe", "-np",       count.c_str()};
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  words.push_back(nullptr);
  std::fflush(nullptr);
  ::execvp(words[0], const_cast<char**>(words.data()));
}

int run_as_process(const Options& options) {
  MpiSession session(kRanksTimeoutS, [](const RunError& error, int, bool speaks) {
    if (speaks) std::fprintf(stderr, "nccl_ring: rank %d: %s\n", error.rank(), error.what());
  });
  Lifeline& line = session.lifeline();
  const ShownOutsideWork connects(line.pulse());  // NCCL has a timeout of its own
  ProcessSeat place;
  try {
    place = take_process_seat(session.rank(), all_gather_of(session));
  } catch (const RunError& error) {  // thrown on every rank alike
    session.finish();
    return session.rank() == 0 ? skip(error.what()) : 0;
  }
  try {
    measure(ranks_in_processes(session, place), options);
  } catch (const std::exception& error) {
    line.fail(error);
  }
  session.finish();
  return 0;
}

#endif

int run_on_threads_here(const Options& options, const std::vector<std::string>& arguments) {
  if (const NcclLibrary& library = nccl_library(); library.api == nullptr)
    return skip(library.why_not);
  const DeviceQuery query = query_device();
  if (!query.device) return skip(query.why_not);
  int gpus = 0;
  static_cast<void>(cudaGetDeviceCount(&gpus));
  const int n = options.world_size > 0 ? options.world_size : gpus;
  try {
    return measure(ranks_on_threads(n), options);
  } catch (const RunError& error) {
#ifdef RINGSCOPE_HAS_MPI
    if (n > gpus) restart_under_mpirun(n, arguments);
#endif
    static_cast<void>(arguments);
    return skip(error.what());
  }
}

// Read the arguments that Google Benchmark has left. Throw InputError.
Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const int value = i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
    if (value < 1 || (flag != "--world-size" && flag != "--rows"))
      throw InputError(flag + ": --world-size N and --rows C are accepted, numbers above 0");
    if (flag == "--rows") {
      options.rows = value;
    } else {
      options.world_size = value;
    }
  }
  return options;
}

}  // namespace
}  // namespace ringscope::cuda

int main(int argc, char** argv) {
  using namespace ringscope;
  using namespace ringscope::cuda;
  const std::vector<std::string> arguments(argv, argv + argc);
  benchmark::Initialize(&argc, argv);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  try {
    const Options options = read_options(argc, argv);
#ifdef RINGSCOPE_HAS_MPI
    if (launched_by_mpi()) return run_as_process(options);
#endif
    return run_on_threads_here(options, arguments);
  } catch (const InputError& error) {
    std::fprintf(stderr, "nccl_ring: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_ring: %s\n", error.what());
    return 3;
  }
}
