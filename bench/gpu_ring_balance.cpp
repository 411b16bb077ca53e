// A causal ring of 8 virtual ranks on one GPU, kernel by kernel, zigzag and contiguous. Every
// (rank, step) is timed alone, and a step lasts as long as its slowest rank.
//
//   contiguous_over_zigzag  ratio of the slowest ranks' kernel times, summed over steps
//                           (by pairs at most 1.875)
//   ..._balance             mean over ranks of kernel time / slowest
//   ..._ceiling             the same by pairs: what the partition allows
#include <map>
#include <utility>

#include "bench/gpu_timing.h"
#include "core/problem/partition.h"
#include "core/problem/region.h"
#include "cuda/kernels/step_problem.h"

namespace ringscope::cuda {
namespace {

constexpr int kRanks = 8;
constexpr int kRows = timed_rows(8192);  // per rank

std::vector<RowInterval> allowed_keys(const Partition& partition, int rank, int owner) {
  const Region region{Mask{.seqlen = Index{kRanks} * kRows, .causal = true},
                      partition.rows_of(rank), partition.rows_of(owner)};
  std::vector<RowInterval> keys;
  for (Index i = 0; i < kRows; ++i) {
    const Interval allowed = region.allowed_rows(i);
    keys.push_back(
        {static_cast<std::int32_t>(allowed.first), static_cast<std::int32_t>(allowed.last)});
  }
  return keys;
}

struct RingTime {
  double slowest = 0, mean = 0;              // seconds
  double slowest_pairs = 0, mean_pairs = 0;  // the same in pairs
};

// Time a ring with the first of the kernel's tiles.
RingTime time_ring(const DeviceInfo& device, PartitionKind kind, const Kernel& kernel) {
  const Partition partition{kind, Index{kRanks} * kRows, kRanks};
  StepProblem problem({1, timed_heads(64), timed_heads(8), kRows, kRows, 128}, DType::bf16,
                      kernel.pass(), square_keys(kRows, false));
  GpuTimer timer(device);
  // Steps that allow the same pairs are measured once.
  std::map<std::vector<std::pair<std::int32_t, std::int32_t>>, double> known;
  RingTime ring;
  for (int step = 0; step < kRanks; ++step) {
    double slowest = 0, sum = 0, slowest_pairs = 0, sum_pairs = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto keys = allowed_keys(partition, rank, (rank - step + kRanks) % kRanks);
      problem.set_allowed_keys(keys);
      if (problem.pairs() == 0) continue;  // a ring skips the kernel
      std::vector<std::pair<std::int32_t, std::int32_t>> id;
      for (const RowInterval& k : keys) id.emplace_back(k.first, k.last);
      const auto [at, is_new] = known.emplace(id, 0.0);
      if (is_new)
        at->second = timer.median(
            [&](cudaStream_t stream) { problem.launch(kernel, 0, false, false, stream); });
      slowest = std::max(slowest, at->second);
      sum += at->second;
      slowest_pairs = std::max(slowest_pairs, problem.pairs());
      sum_pairs += problem.pairs();
    }
    ring.slowest += slowest;
    ring.mean += sum / kRanks;
    ring.slowest_pairs += slowest_pairs;
    ring.mean_pairs += sum_pairs / kRanks;
  }
  return ring;
}

void add(const DeviceInfo& device, const Kernel& kernel) {
  add_benchmark("ring_balance/" + file_name(kernel), device, kernel, DType::bf16, 128,
                [=, &kernel](benchmark::State& state) {
                  const RingTime zigzag = time_ring(device, PartitionKind::zigzag, kernel);
                  const RingTime contiguous = time_ring(device, PartitionKind::contiguous, kernel);
                  state.SetIterationTime(zigzag.slowest);
                  state.counters["contiguous_over_zigzag"] = contiguous.slowest / zigzag.slowest;
                  state.counters["contiguous_over_zigzag_by_pairs"] =
                      contiguous.slowest_pairs / zigzag.slowest_pairs;
                  state.counters["zigzag_balance"] = zigzag.mean / zigzag.slowest;
                  state.counters["zigzag_ceiling"] = zigzag.mean_pairs / zigzag.slowest_pairs;
                  state.counters["contiguous_balance"] = contiguous.mean / contiguous.slowest;
                  state.counters["contiguous_ceiling"] =
                      contiguous.mean_pairs / contiguous.slowest_pairs;
                });
}

}  // namespace
}  // namespace ringscope::cuda

int main(int argc, char** argv) {
  using namespace ringscope::cuda;
  return gpu_benchmark_main(argc, argv, [](const DeviceInfo& device) {
    for (const Kernel& kernel : all_kernels())
      if (kernel.limits.half) add(device, kernel);
  });
}
