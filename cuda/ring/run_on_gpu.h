// Runs a whole attention problem on virtual ranks of one GPU, or on several GPUs of this machine
// whose copy engines move the blocks. `ringscope run --backend cuda` calls it.
#pragma once

#include <vector>

#include "core/run/run.h"
#include "cuda/base/device_info.h"
#include "cuda/ring/choose_kernels.h"

namespace ringscope::cuda {

struct GpuOptions {
  KernelWish kernels;
  // The number of GPUs. Rank r is on GPU r mod gpus.
  int gpus = 1;
  // Run at most one rank's kernel at a time on a GPU, so that the recording shows what each rank's
  // work takes (kernel_turns.h). Otherwise the ranks' kernels share the GPU.
  bool take_turns = true;
  // Take kernel times from CUPTI instead of events (activity.h). RunError when CUPTI is missing.
  bool activity_records = false;
};

// Run like run_on_threads, from device 0 on. Before it starts, throws InputError when no kernel
// takes the problem or fewer GPUs exist than requested, and RunError when there is no device or too
// little free memory on it. A later CUDA error is a RunError that names call, place, rank and step,
// and frees all device memory. Uses the kernels' first tiles where no timing is kept (autotune.h).
RingRun run_on_gpu(const Problem& config, const AttentionInputs& inputs,
                   const Progress& progress = {}, const GpuOptions& options = {});

// Throw InputError when a rank's rows, the batch or the heads exceed what kernels can count.
void check_gpu_sizes(const Problem& config);
// Throw RunError when `ranks` together need more memory than `device`, the current one, has free.
void check_gpu_memory(const Problem& config, const std::vector<int>& ranks,
                      const DeviceInfo& device);

// Return the bytes of device memory that a rank needs. Unlike predicted_rank_bytes, this leaves out
// the CPU's tile scratch and includes the kernels' tables.
Index predicted_gpu_rank_bytes(const Problem& config, int rank);

}  // namespace ringscope::cuda
