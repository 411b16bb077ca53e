// Runs the ranks of one process on its GPUs: virtual ranks on a single GPU, or ranks dealt over
// several. Each rank has a compute stream, a copy stream and its own memory.
#pragma once

#include <vector>

#include "core/ring/problem.h"
#include "core/run/engine.h"
#include "cuda/base/device_memory.h"
#include "cuda/kernels/autotune.h"
#include "cuda/ring/activity.h"
#include "cuda/ring/choose_kernels.h"
#include "cuda/ring/device_communicator.h"
#include "cuda/ring/device_recording.h"

namespace ringscope::cuda {

class GpuEngine : public Engine {
 public:
  // Deal the ranks over the first `gpus` GPUs. With `take_turns`, each GPU runs at most one rank's
  // kernel at a time (kernel_turns.h). `tuner`, and `activities` unless it is null
  // (device_recording.h), must outlive the engine. Throws CudaError.
  GpuEngine(int world_size, const ChosenKernels& kernels, bool take_turns, Autotuner& tuner,
            ActivityLog* activities = nullptr, int gpus = 1)
      : ring_(world_size, gpus),
        turns_(static_cast<std::size_t>(gpus)),
        kernels_(kernels),
        take_turns_(take_turns),
        tuner_(tuner),
        activities_(activities) {}

  std::string_view name() const override { return "cuda"; }
  // The memory of the first GPU; memory_of() gives each rank's.
  MemorySpace& memory() override { return device_memory(); }
  MemorySpace& memory_of(int rank) override { return ring_.memory_of(rank); }
  // Return which tiles were chosen, and how.
  std::string notes() const override;
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;
  void fail(const RunError& error) override { ring_.fail(error); }
  void throw_if_failed() override { ring_.throw_if_failed(); }

 private:
  DeviceRing ring_;
  std::vector<KernelTurns> turns_;  // by GPU
  ChosenKernels kernels_;
  bool take_turns_;
  Autotuner& tuner_;
  ActivityLog* activities_;
};

}  // namespace ringscope::cuda
