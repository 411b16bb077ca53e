// Runs a whole attention problem on virtual ranks of one GPU, or on several GPUs of this machine
// whose copy engines move the blocks. `ringscope run --backend cuda` calls it.
#pragma once

#include "core/run/run.h"
#include "cuda/ring/rank_kernels.h"

namespace ringscope::cuda {

struct GpuOptions {
  KernelWish kernels;
  // The number of GPUs. Rank r is on GPU r mod gpus.
  int gpus = 1;
  // Run at most one rank's kernel at a time on a GPU, so that the recording shows what each rank's
  // work takes (device_recording.h). Otherwise the ranks' kernels share the GPU.
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

// Let this process have 32 of the hardware's queues instead of 8, because streams that share one
// wait for each other, and each rank has two streams. Call it before anything else uses CUDA.
void allow_many_streams();

}  // namespace ringscope::cuda
