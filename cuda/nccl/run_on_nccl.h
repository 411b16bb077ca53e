// Runs whole attention problems over NCCL, with a thread or with a process per rank. Several ranks
// have run only on the host model with cuda/emulator's stand-in for NCCL; one has, over NCCL on an H100.
#pragma once

#include <map>
#include <memory>

#include "core/processes/mpi/run_on_mpi.h"
#include "core/threads/faulty_ring.h"
#include "core/threads/run.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/ring/rank_kernels.h"
#include "cuda/ring/run_on_gpu.h"

namespace ringscope::cuda {

struct NcclOptions {
  KernelWish kernels;
  // The most multiprocessors that a transfer's kernel takes. A persistent kernel leaves them free
  // for it (NcclEngine).
  int max_ctas = 4;
};

// Run like run_on_threads, a thread and a GPU per rank of this machine; placement.h handles more
// ranks than GPUs. Before that, throws InputError if no kernel takes the problem, RunError if a
// GPU, NCCL or memory is missing. A failed rank or an error of CUDA or NCCL aborts every
// communicator, which ends all ranks. RunFailure names rank and step. Recorded send and recv slices
// are the transfers' (nccl_communicator.h).
RingRun run_on_nccl(const Problem& config, RowSource& rows, const Progress& progress = {},
                    const NcclOptions& options = {});
inline RingRun run_on_nccl(const Problem& config, const AttentionInputs& inputs,
                           const Progress& progress = {}, const NcclOptions& options = {}) {
  WholeInputs rows = checked_rows(config, inputs);
  return run_on_nccl(config, rows, progress, options);
}

// Run like run_on_mpi, a process per rank that mpirun has started, on one machine or several, on
// the GPU that placement.h gives this rank. A problem on any rank (no GPU, no NCCL, another version of
// it, too little memory) is a RunError that names the rank, and ends all processes by the lifeline.
RingRun run_on_nccl_processes(MpiSession& session, const Problem& config,
                              const ProcessInputs& inputs, bool gather_outputs,
                              const Progress& progress = {}, const NcclOptions& options = {});

// ---
// Runs ranks on GPUs that NCCL joins. Each rank has its own clock. NCCL's kernels take whole
// multiprocessors. A persistent grid (07, 11) occupies each one until all work is done, so a transfer
// that finds none free waits for the whole step. Therefore it leaves a margin, which costs its share
// of the kernel's speed. Other kernels free multiprocessors all the time and need no margin.

class NcclEngine : public DeviceEngine {
 public:
  // `world` and `setup` must outlive the engine. A process has one margin: that of its last engine.
  NcclEngine(NcclWorld& world, DeviceSetup& setup, const NcclOptions& options, RankLives lives);

  std::string_view name() const override { return "nccl"; }
  MemorySpace& memory_of(int rank) override { return world_.memory_of(rank); }
  std::string notes() const override;
  bool has_pulses() const override { return true; }
  void fail(const RunError& error) override { world_.fail(error); }
  void throw_if_failed() override { world_.throw_if_failed(); }

 private:
  int device_of(int rank) override { return world_.device_of(rank); }
  Link link(Rank& rank) override;

  NcclWorld& world_;
  RankLives lives_;
  std::map<int, DeviceClock> clocks_;  // by rank
};

}  // namespace ringscope::cuda
