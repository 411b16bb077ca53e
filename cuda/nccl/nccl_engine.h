// Runs ranks on GPUs that NCCL joins. Each rank has a compute stream, a transfer stream, its memory
// and its clock on its own GPU.
#pragma once

#include <memory>

#include "core/run/engine.h"
#include "core/run/faulty_ring.h"
#include "cuda/kernels/autotune.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/ring/activity.h"
#include "cuda/ring/choose_kernels.h"

namespace ringscope::cuda {

class NcclEngine : public Engine {
 public:
  // All arguments must outlive the engine. `activities` may be null (device_recording.h).
  // `register_buffers` registers KV buffers and gradients with NCCL where NCCL supports it.
  NcclEngine(NcclWorld& world, const ChosenKernels& kernels, Autotuner& tuner,
             ActivityLog* activities, bool register_buffers, RankLives lives)
      : world_(world),
        kernels_(kernels),
        tuner_(tuner),
        activities_(activities),
        register_buffers_(register_buffers),
        lives_(lives) {}

  std::string_view name() const override { return "nccl"; }
  // The memory of the first GPU; memory_of() gives each rank's.
  MemorySpace& memory() override { return device_memory(); }
  MemorySpace& memory_of(int rank) override { return world_.memory_of(rank); }
  std::string notes() const override;
  bool has_pulses() const override { return true; }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;
  void fail(const RunError& error) override { world_.fail(error); }
  void throw_if_failed() override { world_.throw_if_failed(); }

 private:
  NcclWorld& world_;
  ChosenKernels kernels_;
  Autotuner& tuner_;
  ActivityLog* activities_;
  bool register_buffers_;
  RankLives lives_;
};

}  // namespace ringscope::cuda
