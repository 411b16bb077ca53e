// Runs a whole attention problem on virtual ranks of one GPU, or on several GPUs of this machine
// whose copy engines move the blocks. `ringscope run --backend cuda` calls it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ring/problem.h"
#include "core/threads/engine.h"
#include "core/threads/run.h"
#include "cuda/base/device_memory.h"
#include "cuda/ring/device_communicator.h"
#include "cuda/ring/device_recording.h"
#include "cuda/ring/rank_kernels.h"

namespace ringscope::cuda {

// ---
// Runs the ranks of one process on its GPUs. Each rank has a compute stream, a stream for its hops
// and its own memory. A DeviceEngine leaves open who moves the blocks; GpuEngine's copy engines do
// it here, NcclEngine's NCCL in cuda/nccl.

// A rank of this process, and its GPU.
struct RankSeat {
  int rank = 0;
  int device = 0;
};

// What the ranks of this process run with. Their GPUs are alike, so there is one choice for all.
struct DeviceSetup {
  // Choose kernels that take the problem, and check each GPU's memory. `backend` begins the message
  // about a missing GPU. Throws InputError when no kernel takes the problem, or a rank's rows, the
  // batch or the heads exceed what kernels can count; RunError when a GPU or memory is missing.
  DeviceSetup(const std::string& backend, const Problem& config, const std::vector<RankSeat>& seats,
              const KernelWish& wish);

  ChosenKernels kernels;
};

class DeviceEngine : public Engine {
 public:
  // `setup` must outlive the engine.
  explicit DeviceEngine(DeviceSetup& setup) : setup_(setup) {}

  // The memory of the first GPU; memory_of() gives each rank's.
  MemorySpace& memory() override { return device_memory(); }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;

 protected:
  // How one rank is connected.
  struct Link {
    const DeviceClock& clock;  // of the rank's GPU; must outlive the rank's engine
    std::unique_ptr<Communicator> communicator;
    KernelTurns* turns = nullptr;  // null: kernels of different ranks run at once
    bool ends_by_abort = false;    // hops that a failed run aborts end, so they can be recorded
  };
  virtual int device_of(int rank) = 0;
  // Called with the rank's GPU current.
  virtual Link link(Rank& rank) = 0;

  DeviceSetup& setup_;

 private:
  class OfRank;
};

class GpuEngine : public DeviceEngine {
 public:
  // Deal the ranks over the first `gpus` GPUs. With `take_turns`, each GPU runs at most one rank's
  // kernel at a time (device_recording.h). Throws CudaError.
  GpuEngine(DeviceSetup& setup, int world_size, bool take_turns, int gpus = 1)
      : DeviceEngine(setup),
        ring_(world_size, gpus),
        turns_(static_cast<std::size_t>(gpus)),
        take_turns_(take_turns) {}

  std::string_view name() const override { return "cuda"; }
  MemorySpace& memory_of(int rank) override { return ring_.memory_of(rank); }
  void fail(const RunError& error) override { ring_.fail(error); }
  void throw_if_failed() override { ring_.throw_if_failed(); }

 private:
  int device_of(int rank) override { return ring_.device_of(rank); }
  Link link(Rank& rank) override;

  DeviceRing ring_;
  std::vector<KernelTurns> turns_;  // by GPU
  bool take_turns_;
};

// Return the bytes of device memory that a rank needs. Unlike predicted_rank_bytes, this leaves out
// the CPU's tile scratch and includes the kernels' tables.
Index predicted_gpu_rank_bytes(const Problem& config, int rank);

// ---
// A whole run.

struct GpuOptions {
  KernelWish kernels;
  // The number of GPUs. Rank r is on GPU r mod gpus.
  int gpus = 1;
  // Run at most one rank's kernel at a time on a GPU, so that the recording shows what each rank's
  // work takes (device_recording.h). Otherwise the ranks' kernels share the GPU.
  bool take_turns = true;
};

// Run like run_on_threads, from device 0 on. Before it starts, throws InputError when no kernel
// takes the problem or fewer GPUs exist than requested, and RunError when there is no device or too
// little free memory on it. A later CUDA error is a RunError that names call, place, rank and step,
// and frees all device memory.
RingRun run_on_gpu(const Problem& config, RowSource& rows, const Progress& progress = {},
                   const GpuOptions& options = {});
inline RingRun run_on_gpu(const Problem& config, const AttentionInputs& inputs,
                          const Progress& progress = {}, const GpuOptions& options = {}) {
  WholeInputs rows = checked_rows(config, inputs);
  return run_on_gpu(config, rows, progress, options);
}

// Let this process have 32 of the hardware's queues instead of 8, because streams that share one
// wait for each other, and each rank has two streams. Call it before anything else uses CUDA.
void allow_many_streams();

}  // namespace ringscope::cuda
