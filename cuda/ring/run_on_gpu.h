// A whole attention problem on virtual ranks of one GPU, or on several GPUs of this machine whose copy
// engines move the blocks: what `ringscope run --backend cuda` calls.
#pragma once

#include <vector>

#include "core/run/run.h"
#include "cuda/base/device_info.h"
#include "cuda/ring/choose_kernels.h"

namespace ringscope::cuda {

struct GpuOptions {
  KernelWish kernels;
  // Rank r is on GPU r mod gpus.
  int gpus = 1;
  // At most one rank's kernel at a time on a GPU, so that the recording shows what each rank's work takes
  // (kernel_turns.h). Without it the ranks' kernels share the GPU.
  bool take_turns = true;
  // Kernels' times from CUPTI instead of events (activity.h). RunError when it is not there.
  bool activity_records = false;
};

// As run_on_threads, from device 0 on. Before anything is started: InputError when no kernel takes
// the problem, or there are fewer GPUs than given; RunError when there is no device, or too little free memory on it. A CUDA error
// that happens later is a RunError that names call, place, rank and step; all device memory is free
// again afterwards. Where no timing is kept the kernels' first tiles are used (autotune.h).
RingRun run_on_gpu(const RingConfig& config, const AttentionInputs& inputs,
                   const Progress& progress = {}, const GpuOptions& options = {});

// Throws InputError when a rank would have more rows than kernels can count, or a tensor more heads.
void check_gpu_sizes(const RingConfig& config);
// Throws RunError when `ranks` together need more memory than `device`, the current one, has free.
void check_gpu_memory(const RingConfig& config, const std::vector<int>& ranks,
                      const DeviceInfo& device);

// Bytes of device memory that a rank needs: predicted_rank_bytes without the CPU's tile scratch,
// and with the kernels' tables.
Index predicted_gpu_rank_bytes(const RingConfig& config, int rank);

}  // namespace ringscope::cuda
