// Rings of virtual ranks on one GPU, kernel by kernel: every launch that a rank's loop asks for is timed
// alone, and a step lasts as long as its slowest rank. No block moves.
//
// ring_balance/KERNEL: a causal ring of 8 ranks with 8,192 rows each, zigzag and contiguous.
//
//   contiguous_over_zigzag  ratio of the slowest ranks' kernel times, summed over steps
//                           (by pairs at most 1.875)
//   ..._balance             mean over ranks of kernel time / slowest
//   ..._ceiling             the same by pairs: what the partition allows
//
// rings/SCHEME/...: every deal and scheme over lengths and kv heads, with the best kernels; names and
// flags are those of ring_jobs.h.
//
//   TFLOPs           per rank, by the slowest rank of every step
//   balance, ceiling, over_contiguous   as above
//   needs_GBps       bytes that a rank sends / time: the link behind which a pass hides its transfers
//   link_GBps        of copies of a KV block within this GPU, which no link between GPUs exceeds
//
// fused/12_fused_ring/…/ROWS/MASK/RANKS: a zigzag ring over ROWS positions in one launch (step 12), in turn
// with the same steps launched one by one (step 07), each of which has the whole GPU. These move no block.
//
//   over_launches    ratio of the times
//   TFLOPs           of all ranks together
//
// side_by_side/APPROACH/ROWS: naive attention (kernel 01, in f32) and flash attention (the best kernel,
// bf16) over ROWS positions alone and in a ring, by block.
//
//   MiB, largest     of a rank, and the length of which every rank needs at most 80 GiB: by formula
#include <map>
#include <tuple>
#include <utility>

#include "bench/gpu_timing.h"
#include "bench/ring_jobs.h"
#include "core/ring/loop_counts.h"
#include "core/ring/schemes.h"
#include "cuda/kernels/step_problem.h"
#include "cuda/ring/fused_run.h"
#include "cuda/ring/rank_kernels.h"

namespace ringscope::cuda {
namespace {

// One launch: a block of keys, and the queries and heads that attend it.
struct Launch {
  StepShape shape;
  std::vector<RowInterval> keys;

  auto id() const {
    std::vector<std::pair<std::int32_t, std::int32_t>> of_rows;
    for (const RowInterval& k : keys) of_rows.emplace_back(k.first, k.last);
    return std::tuple(shape.heads, shape.heads_kv, shape.rows_k, std::move(of_rows));
  }
  double pairs() const {
    double sum = 0;
    for (const RowInterval& k : keys) sum += k.last - k.first;
    return sum * shape.batch * shape.heads;
  }
};

// Seams that note down the launches of a loop, by step.
class LaunchList : public Communicator, public IdleBackend {
 public:
  LaunchList(const Problem& job, int rank)
      : job_(job), rank_(rank), heads_(share_of_heads(job.shape, 1, 0)) {
    by_step.resize(job.world_size);
    NoMemory nowhere;
    RankMemory memory(job, rank, nowhere);
    run_forward(*this, *this, job.ring_problem(), memory);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return job_.world_size; }
  Completion exchange(const Exchange&, std::initializer_list<Completion>) override { return {}; }
  void use_heads(const HeadShare& share) override { heads_ = share; }
  void await(const StepInfo&, Payload, const Completion&) override {}
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState&, const Completion&) override {
    if (region.pairs() == 0) return {};  // a ring skips the kernel
    AttentionParams params = heads_.of({job_.shape, job_.dtype});
    Launch launch{shape_of(params, q.rows, block.rows), {}};
    for (Index i = 0; i < q.rows; ++i) {
      const Interval allowed = region.allowed_rows(i);
      launch.keys.push_back(
          {static_cast<std::int32_t>(allowed.first), static_cast<std::int32_t>(allowed.last)});
    }
    by_step[step.step].push_back(std::move(launch));
    return {};
  }

  std::vector<std::vector<Launch>> by_step;

 private:
  Completion around(BlockOperation, const StepInfo*, const Completion&, const Start&) override {
    return {};
  }

  const Problem& job_;
  int rank_;
  HeadShare heads_;
};

// Sums over the steps of a ring.
struct RingTime {
  double slowest = 0, mean = 0;              // seconds
  double slowest_pairs = 0, mean_pairs = 0;  // the same in pairs
  double balance() const { return mean / slowest; }
  double ceiling() const { return mean_pairs / slowest_pairs; }
};

// Times launches of one kernel with the first of its tiles, those that are alike once.
class LaunchTimer {
 public:
  LaunchTimer(const DeviceInfo& device, const Kernel& kernel, DType dtype)
      : kernel_(kernel), dtype_(dtype), timer_(device) {}

  double seconds(const Launch& launch) {
    const auto [at, is_new] = known_.emplace(launch.id(), 0.0);
    if (!is_new) return at->second;
    StepProblem problem(launch.shape, dtype_, kernel_.pass(), launch.keys);
    const bool whole = !kernel_.carries_state;
    const auto launch_it = [&](cudaStream_t stream) {
      problem.launch(kernel_, 0, whole, whole, stream);
    };
    return at->second = timer_.median(launch_it).seconds;
  }

  RingTime ring(const Problem& job) {
    std::vector<LaunchList> ranks;
    for (int rank = 0; rank < job.world_size; ++rank) ranks.emplace_back(job, rank);
    RingTime ring;
    for (std::size_t step = 0; step < ranks.size(); ++step) {
      double slowest = 0, slowest_pairs = 0;
      for (const LaunchList& rank : ranks) {
        double time = 0, pairs = 0;
        for (const Launch& launch : rank.by_step[step]) {
          time += seconds(launch);
          pairs += launch.pairs();
        }
        slowest = std::max(slowest, time);
        slowest_pairs = std::max(slowest_pairs, pairs);
        ring.mean += time / job.world_size;
        ring.mean_pairs += pairs / job.world_size;
      }
      ring.slowest += slowest;
      ring.slowest_pairs += slowest_pairs;
    }
    return ring;
  }

 private:
  const Kernel& kernel_;
  DType dtype_;
  GpuTimer timer_;
  std::map<decltype(std::declval<Launch>().id()), double> known_;
};

Problem dealt_contiguously(Problem job) {
  job.partition = PartitionKind::contiguous;
  return job;
}

// Return the bytes per second of copies of a KV block in this GPU's memory.
double copy_rate(const DeviceInfo& device, const Problem& job) {
  const Index bytes = job.ring_problem().kv_bytes(0);
  MemoryMeter meter{device_memory()};
  Buffer<std::byte> from(&meter, bytes), to(&meter, bytes);
  GpuTimer timer(device);
  const auto copy = [&](cudaStream_t stream) {
    RINGSCOPE_CUDA(cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(bytes),
                                   cudaMemcpyDeviceToDevice, stream));
  };
  return static_cast<double>(bytes) / timer.median(copy).seconds;
}

void add_balance(const DeviceInfo& device, const Kernel& kernel, const Problem& job) {
  add_benchmark("ring_balance/" + file_name(kernel), device, kernel, DType::bf16, 128,
                [=, &kernel](benchmark::State& state) {
                  LaunchTimer timer(device, kernel, DType::bf16);
                  const RingTime zigzag = timer.ring(job);
                  const RingTime contiguous = timer.ring(dealt_contiguously(job));
                  state.SetIterationTime(zigzag.slowest);
                  state.counters["contiguous_over_zigzag"] = contiguous.slowest / zigzag.slowest;
                  state.counters["contiguous_over_zigzag_by_pairs"] =
                      contiguous.slowest_pairs / zigzag.slowest_pairs;
                  state.counters["zigzag_balance"] = zigzag.balance();
                  state.counters["zigzag_ceiling"] = zigzag.ceiling();
                  state.counters["contiguous_balance"] = contiguous.balance();
                  state.counters["contiguous_ceiling"] = contiguous.ceiling();
                });
}

// Time one pass of a job: the backward pass alone where the job has one.
void add_job(const DeviceInfo& device, const Kernel& kernel, const Problem& job) {
  add_benchmark(
      "rings/" + name_of(job) + "/" + file_name(kernel), device, kernel, job.dtype,
      static_cast<int>(job.shape.head_dim), [=, &kernel](benchmark::State& state) {
        LaunchTimer timer(device, kernel, job.dtype);
        const RingTime ring = timer.ring(job);
        double sent = 0;
        for (int rank = 0; rank < job.world_size; ++rank) {
          const LoopCounts counts = count_loop(job, rank);
          sent = std::max(sent, job.backward ? counts.backward_bytes : counts.forward_bytes);
        }
        state.SetIterationTime(ring.slowest);
        state.counters["TFLOPs"] = (job.backward ? 10 : 4) * ring.mean_pairs *
                                   static_cast<double>(job.shape.head_dim) / ring.slowest * 1e-12;
        state.counters["balance"] = ring.balance();
        state.counters["ceiling"] = ring.ceiling();
        state.counters["over_contiguous"] =
            timer.ring(dealt_contiguously(job)).slowest / ring.slowest;
        state.counters["needs_GBps"] = sent / ring.slowest * 1e-9;
        state.counters["link_GBps"] = copy_rate(device, job) * 1e-9;
      });
}

void add_fused(const DeviceInfo& device, Problem job, const std::string& what) {
#ifdef RINGSCOPE_MODEL  // on which all blocks' threads have stacks at once
  const int blocks = 1;
#else
  const int blocks = 0;
#endif
  add_benchmark("fused/12_fused_ring/bf16/d128/" + what, device, hopper_overlap_kernel, job.dtype,
                static_cast<int>(job.shape.head_dim), [=](benchmark::State& state) {
                  state.counters["kernel"] = 12;
                  FusedRun run(job, blocks);
                  CheapRows rows(job);
                  run.take(rows);
                  const auto fused = [&](cudaStream_t stream) { run.launch(stream); };
                  const auto launches = [&](cudaStream_t stream) {
                    run.launch_steps(hopper_overlap_kernel, stream);
                  };
                  const auto out_of = [&](const auto& enqueue) {
                    run.poison();
                    enqueue(nullptr);
                    RINGSCOPE_CUDA(cudaDeviceSynchronize());
                    return run.outputs().out;
                  };
                  if (out_of(fused) != out_of(launches))
                    return state.SkipWithError("differs from its steps launched one by one");
                  const std::vector<Timing> timings = GpuTimer(device).medians({fused, launches});
                  const double seconds = timings[0].seconds;
                  state.SetIterationTime(seconds);
                  state.counters["over_launches"] = seconds / timings[1].seconds;
                  state.counters["TFLOPs"] =
                      4e-12 * run.pairs() * static_cast<double>(job.shape.head_dim) / seconds;
                });
}

void add_approach(const DeviceInfo& device, const Kernel& kernel, const Approach& approach,
                  Problem job) {
  job.dtype = kernel.limits.half ? DType::bf16 : DType::f32;
  add_benchmark("side_by_side/" + std::string(approach.name) + "/" +
                    std::to_string(job.shape.seqlen) + "/" + file_name(kernel),
                device, kernel, job.dtype, static_cast<int>(job.shape.head_dim),
                [=, &kernel](benchmark::State& state) {
                  LaunchTimer timer(device, kernel, job.dtype);
                  state.SetIterationTime(timer.ring(job).slowest);
                  state.counters["MiB"] = bytes_of(approach, job) / (1 << 20);
                  state.counters["largest"] =
                      static_cast<double>(largest_length(approach, job, 80 * 0x1p30));
                });
}

void add_benchmarks(const DeviceInfo& device, const RingJobs& jobs) {
  Problem balance = job_of(kApproaches[3], jobs.base, Index{8} * timed_rows(8192));
  balance.world_size = 8;
  balance.shape.num_heads_kv = timed_heads(8);
  for (const Kernel& kernel : all_kernels())
    if (kernel.limits.half) add_balance(device, kernel, balance);
  const ChosenKernels best = choose_kernels({}, device, DType::bf16, 128, true);
  for (const auto& [rows, mask, ranks] : {std::tuple{8192, "causal", 4},
                                          {16384, "causal", 4},
                                          {16384, "full", 4},
                                          {16384, "causal", 8}}) {
    Problem job = balance;
    job.shape.seqlen = timed_rows(rows);
    job.mask = MaskSpec::parse(mask);
    job.world_size = ranks;
    job.deal_out();
    add_fused(device, job, std::to_string(rows) + "/" + mask + "/" + std::to_string(ranks));
  }
  for (const Problem& job : jobs.all())
    add_job(device, job.backward ? *best.backward : *best.forward, job);
  for (const Index rows : jobs.rows)
    for (const Approach& approach : kApproaches) {
      Problem job = job_of(approach, jobs.base, rows * jobs.base.world_size);
      job.shape.num_heads = job.shape.num_heads_kv = 1;  // a head is what kernel 01 has time for
      add_approach(device, approach.keeps_scores ? naive_kernel : *best.forward, approach, job);
    }
}

}  // namespace
}  // namespace ringscope::cuda

int main(int argc, char** argv) {
  using namespace ringscope;
  benchmark::Initialize(&argc, argv);
  Problem base;
  base.shape = {1, cuda::timed_heads(64), cuda::timed_heads(64), 0, 128};
  base.dtype = DType::bf16;
  base.world_size = 8;
  RingJobs jobs{base, {}, {cuda::timed_heads(64), cuda::timed_heads(8)}};
  for (const int rows : {1024, 4096, 8192, 32768}) jobs.rows.push_back(cuda::timed_rows(rows));
  if (const auto status = jobs.read(argc, argv)) return *status;
  return cuda::run_gpu_benchmarks(
      [&](const cuda::DeviceInfo& device) { cuda::add_benchmarks(device, jobs); });
}
