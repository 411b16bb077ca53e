#include "cuda/ring/run_on_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cuda/base/check.h"
#include "cuda/base/device_info.h"
#include "cuda/ring/device_engine.h"

namespace ringscope::cuda {
namespace {

void check_device(int index) {
  const DeviceQuery query = query_device(index);
  if (!query.device) throw RunError("backend cuda: " + query.why_not);
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

}  // namespace

void allow_many_streams() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

RingRun run_on_gpu(const Problem& config, const AttentionInputs& inputs, const Progress& progress,
                   const GpuOptions& options) {
  check_run(config, inputs);
  allow_many_streams();
  check_device(0);
  const int gpus = check_gpus(options.gpus, config.world_size);
  for (int gpu = 1; gpu < gpus; ++gpu) check_device(gpu);
  std::vector<RankSeat> seats;
  for (int rank = 0; rank < config.world_size; ++rank) seats.push_back({rank, rank % gpus});
  DeviceSetup setup("cuda", config, seats, options.kernels, options.activity_records);
  GpuEngine engine(setup, config.world_size, options.take_turns, gpus);
  return run_ranks(config, inputs, engine, progress);
}

}  // namespace ringscope::cuda
