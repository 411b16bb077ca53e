// Measures the ring over NCCL on all GPUs of this machine: its speed and its losses.
//
//   nccl_ring [--world-size N] [--rows C] [--benchmark_...]
//
// Without --world-size, there are as many ranks as GPUs, a thread each. More ranks than GPUs share
// them slowly, which is only good for checking this program, and only NCCL 2.30.3 or later lets
// them. The problem is bf16, head_dim 128, 32 heads, 8 kv heads, causal, with C rows per rank (8192).
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

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu_timing.h"
#include "core/base/random.h"
#include "core/run/recording.h"
#include "core/run/run.h"
#include "core/trace/summary.h"
#include "cuda/base/device_info.h"
#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"
#include "cuda/ring/run_on_gpu.h"

namespace ringscope::cuda {
namespace {

constexpr int kIterations = 5;
constexpr double kTimeoutS = 120;

// ---
// The two halves of a run, each without the other, for comparison with the whole: only computing,
// where no block moves, and only communicating, where no block is attended. Their results are
// useless, and buffers that nothing arrives in hold NaN.

enum class Half { both, compute, communication };

// A communicator that moves nothing.
class StandingCommunicator : public Communicator {
 public:
  explicit StandingCommunicator(const Communicator& other)
      : rank_(other.rank()), world_size_(other.world_size()) {}
  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Completion exchange(const Exchange&, std::initializer_list<Completion>) override {
    return nullptr;
  }

 private:
  int rank_, world_size_;
};

// A backend that attends nothing.
class RestingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

 private:
  Completion around(BlockOperation, const StepInfo*, const Completion&, const Start&) override {
    return nullptr;
  }
};

// An engine that does only one half of the work.
class HalfEngine : public NcclEngine {
 public:
  HalfEngine(NcclWorld& world, DeviceSetup& setup, Half kept)
      : NcclEngine(world, setup, {}, RankLives::in_a_thread), half_(kept) {}
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<HalfRank>(NcclEngine::make(rank, listener), half_);
  }

 private:
  class HalfRank : public RankEngine {
   public:
    HalfRank(std::unique_ptr<RankEngine> whole, Half kept)
        : whole_(std::move(whole)),
          half_(kept),
          standing_(whole_->communicator()),
          idle_(whole_->backend()) {}
    void begin() override { whole_->begin(); }
    Communicator& communicator() override {
      return half_ == Half::compute ? standing_ : whole_->communicator();
    }
    BlockBackend& backend() override {
      return half_ == Half::communication ? idle_ : whole_->backend();
    }
    void finish() override { whole_->finish(); }
    void finish_failed() override { whole_->finish_failed(); }
    Index scratch_bytes() const override { return whole_->scratch_bytes(); }
    std::int64_t clock_error_ns() const override { return whole_->clock_error_ns(); }

   private:
    std::unique_ptr<RankEngine> whole_;
    Half half_;
    StandingCommunicator standing_;
    RestingBackend idle_;
  };

  Half half_;
};

// ---

// Numbers that take little time to make.
AttentionInputs cheap_inputs(const AttentionShape& shape) {
  const auto tensor = [](Index values, std::uint64_t number) {
    std::vector<float> made(static_cast<std::size_t>(values));
    for (Index i = 0; i < values; ++i)
      made[static_cast<std::size_t>(i)] = static_cast<float>(
          static_cast<double>(mix64(static_cast<std::uint64_t>(i) ^ number << 60) >> 40) /
              (1 << 23) -
          1);
    return made;
  };
  const Index q = query_values(shape, shape.seqlen), kv = kv_values(shape, shape.seqlen);
  return {tensor(q, 0), tensor(kv, 1), tensor(kv, 2), tensor(q, 3)};
}

// The ranks, a thread each. The connections are made once and serve all runs.
class Ranks {
 public:
  // Throw RunError when NCCL can't be used.
  explicit Ranks(int world_size) {
    std::string why_not;
    const RankGpus seen = visible_gpus(why_not);
    const Placement placement = place_ranks(std::vector<RankGpus>(world_size, seen));
    apply(nccl_environment(placement, nccl_version(), false, 0));
    for (int rank = 0; rank < world_size; ++rank) seats_.push_back({rank, placement.devices[rank]});
    shares_gpus_ = placement.shares_gpus;
    world_ = std::make_unique<NcclWorld>(new_nccl_id(), world_size, seats_,
                                         NcclLimits{NcclOptions{}.max_ctas, kTimeoutS});
  }

  int world_size() const { return static_cast<int>(seats_.size()); }
  bool shares_gpus() const { return shares_gpus_; }
  RingRun run(const Problem& config, const AttentionInputs& inputs, Half kept) const {
    DeviceSetup setup("nccl", config, seats_, {});
    HalfEngine engine(*world_, setup, kept);
    RingRun done = run_ranks(config, inputs, engine);
    split_waiting_from_transfer(done.recording);
    return done;
  }

 private:
  std::vector<RankSeat> seats_;
  bool shares_gpus_ = false;
  std::unique_ptr<NcclWorld> world_;
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
  config.timeout_s = kTimeoutS;
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
  const AttentionInputs inputs = cheap_inputs(config.shape);
  for (const Half half : {Half::both, Half::compute, Half::communication})
    ranks.run(config, inputs, half);
  const double of_one = one_gpu_tflops(rows, config.backward);
  Sums sums;
  for (auto _ : state) {
    const RingRun whole = ranks.run(config, inputs, Half::both);
    sums.compute_only += ranks.run(config, inputs, Half::compute).wall_s;
    sums.transfer_only += ranks.run(config, inputs, Half::communication).wall_s;
    state.SetIterationTime(whole.wall_s);
    add_run(whole, sums);
  }
  report(state, config, sums, of_one);
}

// Measure the same blocks moved by copy engines, with one GPU per rank.
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
  const int n = ranks.world_size();
  for (const bool backward : {false, true}) {
    const std::string pass = backward ? "/with_backward" : "/forward";
    for (const auto& [partition, scheme] : {std::pair{PartitionKind::zigzag, Scheme::ring},
                                            {PartitionKind::contiguous, Scheme::ring},
                                            {PartitionKind::zigzag, Scheme::allgather}}) {
      const Problem config = config_for(n, rows, partition, scheme, backward);
      add("nccl/" + std::string(name_of(scheme)) + "/" + std::string(name_of(partition)) + pass,
          [=, &ranks](benchmark::State& state) {
            guarded(state, [&] { measure(state, ranks, config, rows); });
          });
      if (n == 1) break;
    }
    if (n == 1 || ranks.shares_gpus()) continue;
    const Problem config = config_for(n, rows, PartitionKind::zigzag, Scheme::ring, backward);
    add("copy_engines/ring/zigzag" + pass, [=](benchmark::State& state) {
      guarded(state, [&] { measure_copies(state, config, rows); });
    });
  }
}

void say_what_was_not_measured(int gpus, const Ranks& ranks) {
  const auto say = [](const char* text) { std::printf("not measured: %s\n", text); };
  if (ranks.shares_gpus())
    say("speed between GPUs: ranks share a GPU here, and its time; the figures above are no "
        "ring's");
  if (ranks.world_size() == 1)
    say("anything of a ring: with one rank no block moves (--world-size N for more)");
  if (gpus < 2) say("NVLink and PCIe between GPUs, copy engines between GPUs: there is one GPU");
  say("links between machines");
}

int skip(const std::string& why) {
  std::printf("skipped: %s\nnot measured: anything\n", why.c_str());
  return 0;
}

int run(int world_size, Index rows) {
  if (const NcclLibrary& library = nccl_library(); library.api == nullptr)
    return skip(library.why_not);
  const DeviceQuery query = query_device();
  if (!query.device) return skip(query.why_not);
  int gpus = 0;
  RINGSCOPE_CUDA(cudaGetDeviceCount(&gpus));
  std::unique_ptr<Ranks> ranks;
  try {
    ranks = std::make_unique<Ranks>(world_size > 0 ? world_size : gpus);
  } catch (const RunError& error) {
    return skip(error.what());
  }
  benchmark::AddCustomContext("gpu", to_string(*query.device));
  benchmark::AddCustomContext("gpus", std::to_string(gpus));
  benchmark::AddCustomContext("nccl", nccl_version_text(nccl_version()));
  benchmark::AddCustomContext("ranks", std::to_string(ranks->world_size()) +
                                           (ranks->shares_gpus() ? ", sharing GPUs" : ""));
  add_benchmarks(*ranks, rows);
  benchmark::RunSpecifiedBenchmarks();
  say_what_was_not_measured(gpus, *ranks);
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace ringscope::cuda

int main(int argc, char** argv) {
  using namespace ringscope;
  benchmark::Initialize(&argc, argv);
  cuda::allow_many_streams();
  try {
    int world_size = 0, rows = 8192;
    for (int i = 1; i < argc; i += 2) {
      const std::string flag = argv[i];
      const int value = i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
      if (value < 1 || (flag != "--world-size" && flag != "--rows"))
        throw InputError(flag + ": --world-size N and --rows C are accepted, numbers above 0");
      (flag == "--rows" ? rows : world_size) = value;
    }
    return cuda::run(world_size, rows);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_ring: %s\n", error.what());
    return dynamic_cast<const InputError*>(&error) != nullptr ? 2 : 3;
  }
}
