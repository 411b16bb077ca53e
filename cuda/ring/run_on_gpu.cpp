#include "cuda/ring/run_on_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/ring/rank_memory.h"
#include "cuda/base/check.h"
#include "cuda/base/current_device.h"
#include "cuda/base/device_info.h"
#include "cuda/ring/cuda_backend.h"
#include "cuda/ring/gpu_engine.h"

namespace ringscope::cuda {
namespace {

DeviceInfo device_or_throw(int index = 0) {
  const DeviceQuery query = query_device(index);
  if (!query.device) throw RunError("backend cuda: " + query.why_not);
  return *query.device;
}

// Return how many of the `wanted` GPUs get ranks.
int check_gpus(int wanted, int world_size) {
  int there = 0;
  RINGSCOPE_CUDA(cudaGetDeviceCount(&there));
  if (wanted < 1 || wanted > there)
    throw InputError(
        fmt::format("--gpus: {} given; accepted: 1 to {}, as many as there are", wanted, there));
  return std::min(wanted, world_size);
}

// Kernels count rows in int.
constexpr Index kMaxRows = Index{1} << 30;

// Room for rounded-up allocations, code, and what kernels need while they run.
constexpr Index kSpareBytes = Index{64} << 20;

}  // namespace

void check_gpu_sizes(const Problem& config) {
  const Index rows = config.partition_of_sequence().max_rows();
  if (rows > kMaxRows)
    throw InputError(fmt::format(
        "seqlen: {} on {} ranks is {} rows a rank, at most {} accepted on a GPU; give a larger "
        "--world-size or use --backend cpu",
        config.shape.seqlen, config.world_size, rows, kMaxRows));
  for (const Index size : {config.shape.batch, config.shape.num_heads})
    if (size > 65535)  // limit of a grid's second and third dimensions
      throw InputError(
          fmt::format("batch or heads: {} given, at most 65535 accepted on a GPU", size));
}

void check_gpu_memory(const Problem& config, const std::vector<int>& ranks,
                      const DeviceInfo& device) {
  Index needed = kSpareBytes;
  for (const int rank : ranks) needed += predicted_gpu_rank_bytes(config, rank);
  std::size_t free = 0, total = 0;
  RINGSCOPE_CUDA(cudaMemGetInfo(&free, &total));
  const auto gib = [](double bytes) { return bytes / (1 << 30); };
  if (static_cast<double>(needed) > static_cast<double>(free))
    throw RunError(fmt::format(
        "out of device memory: {} ranks need {:.3f} GiB, {} has {:.3f} GiB free of {:.3f}; give a "
        "smaller --seqlen or use --backend cpu",
        ranks.size(), gib(static_cast<double>(needed)), device.name, gib(static_cast<double>(free)),
        gib(static_cast<double>(total))));
}

RingRun run_on_gpu(const Problem& config, const AttentionInputs& inputs, const Progress& progress,
                   const GpuOptions& options) {
  check_run(config, inputs);
  check_gpu_sizes(config);
  // Streams that share one of the hardware's queues wait for each other. There are 8 queues unless
  // more are requested before CUDA starts, and each rank has two streams.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const DeviceInfo device = device_or_throw();
  const int gpus = check_gpus(options.gpus, config.world_size);
  const ChosenKernels kernels = choose_kernels(options.kernels, device.architecture, config.dtype,
                                               config.shape.head_dim, config.backward);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CurrentDevice current(gpu);
    std::vector<int> ranks;
    for (int rank = gpu; rank < config.world_size; rank += gpus) ranks.push_back(rank);
    check_gpu_memory(config, ranks, device_or_throw(gpu));
  }
  Autotuner tuner(tuner_options(device));
  std::unique_ptr<ActivityLog> activities;
  if (options.activity_records) {
    std::string why_not;
    activities = open_activity_log(why_not);
    if (activities == nullptr) throw RunError("activity records: " + why_not);
  }
  GpuEngine engine(config.world_size, kernels, options.take_turns, tuner, activities.get(), gpus);
  return run_ranks(config, inputs, engine, progress);
}

Index predicted_gpu_rank_bytes(const Problem& config, int rank) {
  return RankMemory::predicted_bytes(config, rank) +
         CudaBackend::scratch_bytes(config.ring_problem(), rank, config.backward);
}

}  // namespace ringscope::cuda
