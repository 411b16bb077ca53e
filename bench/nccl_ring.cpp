// Measures rings over NCCL on all GPUs of this machine: their speed and their losses, for every deal and
// scheme over lengths and kv heads. The flags and figures are those of ring_jobs.h, of which --world-size
// is as many as there are GPUs; with more, ranks share GPUs slowly, which is only good for checking this
// program, and only NCCL 2.30.3 or later lets them. The jobs are bf16, head_dim 128, 32 heads.
//
// copy_engines/... are the same jobs with blocks moved by copy engines, one GPU per rank. The link's
// ceiling is a ring that only moves the longest blocks. The program ends by printing what this machine
// has no means to measure. It has run on the host model only, not on a GPU.

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu_timing.h"
#include "bench/ring_jobs.h"
#include "core/ring/loop_counts.h"
#include "cuda/base/device_info.h"
#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"
#include "cuda/ring/run_on_gpu.h"

namespace ringscope::cuda {
namespace {

constexpr int kIterations = 5;
constexpr double kTimeoutS = 120;  // as of the jobs

// The ranks, a thread each. The connections are made once and serve all runs.
class Ranks {
 public:
  // Throw RunError when NCCL can't be used.
  Ranks(int world_size, bool meet_all, const NcclOptions& options) : options_(options) {
    std::string why_not;
    const RankGpus seen = visible_gpus(why_not);
    const Placement placement = place_ranks(std::vector<RankGpus>(world_size, seen));
    apply(nccl_environment(placement, nccl_version(), false, 0));
    for (int rank = 0; rank < world_size; ++rank) seats_.push_back({rank, placement.devices[rank]});
    shares_gpus_ = placement.shares_gpus;
    world_ = std::make_unique<NcclWorld>(new_nccl_id(), world_size, seats_,
                                         NcclLimits{options.max_ctas, kTimeoutS, meet_all});
  }

  int world_size() const { return static_cast<int>(seats_.size()); }
  bool shares_gpus() const { return shares_gpus_; }
  RingRun run(const Problem& job, const Decorations& with) const {
    DeviceSetup setup("nccl", job, seats_, {});
    NcclEngine over_nccl(*world_, setup, options_, RankLives::in_a_thread);
    DecoratedEngine engine(over_nccl, with);
    CheapRows rows(job);
    RingRun done = run_ranks(job, rows, engine);
    split_waiting_from_transfer(done.recording);
    return done;
  }
  RingRun run_with_copy_engines(const Problem& job, const Decorations& with) const {
    DeviceSetup setup("cuda", job, seats_, {});
    GpuEngine by_copies(setup, job.world_size, false, job.world_size);
    DecoratedEngine engine(by_copies, with);
    CheapRows rows(job);
    return run_ranks(job, rows, engine);
  }

 private:
  NcclOptions options_;
  std::vector<RankSeat> seats_;
  bool shares_gpus_ = false;
  std::unique_ptr<NcclWorld> world_;
};

// Return TFLOP/s of one GPU alone over a rank's rows, by compute time.
double alone_tflops(const Problem& job) {
  const Problem one = one_rank_of(job);
  static std::map<std::string, double> known;
  double& tflops = known[name_of(one)];
  if (tflops > 0) return tflops;
  for (int i = 0; i < 3; ++i) {
    CheapRows rows(one);
    const RunSummary summary = summarize(run_on_gpu(one, rows).recording);
    tflops = std::max(tflops, flops_of(one) * 1e-12 / summary.ranks[0].compute_s);
  }
  return tflops;
}

using Runner = std::function<RingRun(const Problem&, const Decorations&)>;

// Measure once the bytes per second that arrive at a rank of a ring which only moves blocks.
double link_rate(const Runner& run, Problem job) {
  job.scheme = default_scheme();
  job.partition = PartitionKind::contiguous;
  job.backward = false;
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const double seconds = run(job, only(Half::communication, false)).wall_s;
    const auto bytes = static_cast<double>(job.ring_problem().kv_bytes(0));
    best = std::max(best, bytes * (job.world_size - 1) / seconds);
  }
  return best;
}

RingMachine machine_of(Runner run, Problem longest) {
  return {run, alone_tflops, [run, longest, rate = 0.0](const Problem&) mutable {
            if (rate == 0) rate = link_rate(run, longest);
            return rate;
          }};
}

void add_benchmarks(const RingJobs& jobs, const RingMachine& over_nccl,
                    const RingMachine* by_copies) {
  for (const Problem& job : jobs.all()) {
    add_ring_job("nccl/", job, over_nccl, kIterations);
    if (by_copies != nullptr) add_ring_job("copy_engines/", job, *by_copies, kIterations);
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

int run(RingJobs& jobs, int argc, char** argv) {
  if (const NcclLibrary& library = nccl_library(); library.api == nullptr)
    return skip(library.why_not);
  const DeviceQuery query = query_device();
  if (!query.device) return skip(query.why_not);
  int gpus = 0;
  RINGSCOPE_CUDA(cudaGetDeviceCount(&gpus));
  jobs.base.world_size = gpus;
  NcclOptions options;
  const auto status = jobs.read(argc, argv, [&](CLI::App& flags) {
    flags.add_option("--ctas", options.max_ctas)->check(CLI::Range(1, 32));
  });
  if (status) return *status;
  const std::vector<Problem> all = jobs.all();
  const bool meet_all = !std::ranges::all_of(all, is_plain);
  std::unique_ptr<Ranks> ranks;
  try {
    ranks = std::make_unique<Ranks>(jobs.base.world_size, meet_all, options);
  } catch (const RunError& error) {
    return skip(error.what());
  }
  const auto has_longer_block = [](const Problem& a, const Problem& b) {
    return a.ring_problem().kv_bytes(0) < b.ring_problem().kv_bytes(0);
  };
  const Problem longest = *std::ranges::max_element(all, has_longer_block);
  const RingMachine over_nccl = machine_of(
      [&](const Problem& job, const Decorations& with) { return ranks->run(job, with); }, longest);
  const RingMachine by_copies =
      machine_of([&](const Problem& job,
                     const Decorations& with) { return ranks->run_with_copy_engines(job, with); },
                 longest);
  const bool has_links = ranks->world_size() > 1 && !ranks->shares_gpus();
  add_benchmarks(jobs, over_nccl, has_links ? &by_copies : nullptr);
  benchmark::AddCustomContext("gpu", to_string(*query.device));
  benchmark::AddCustomContext("gpus", std::to_string(gpus));
  benchmark::AddCustomContext("nccl", nccl_version_text(nccl_version()));
  benchmark::AddCustomContext("ranks", std::to_string(ranks->world_size()) +
                                           (ranks->shares_gpus() ? ", sharing GPUs" : ""));
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
  Problem base;
  base.shape = {1, cuda::timed_heads(32), 0, 0, 128};
  base.dtype = DType::bf16;
  base.timeout_s = 120;
  RingJobs jobs{base, {}, {cuda::timed_heads(32), cuda::timed_heads(8)}};
  for (const int rows : {1024, 4096, 8192, 32768}) jobs.rows.push_back(cuda::timed_rows(rows));
  try {
    return cuda::run(jobs, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_ring: %s\n", error.what());
    return dynamic_cast<const InputError*>(&error) != nullptr ? 2 : 3;
  }
}
