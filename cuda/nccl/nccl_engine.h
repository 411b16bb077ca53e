// Runs ranks on GPUs that NCCL joins. Each rank has its own clock. NCCL's kernels take whole
// multiprocessors. A persistent grid (07) occupies each one until all work is done, so a transfer
// that finds none free waits for the whole step. Therefore 07 leaves a margin, which costs its
// share of the kernel's speed. Other kernels free multiprocessors all the time and need no margin.
#pragma once

#include <map>
#include <memory>

#include "core/run/faulty_ring.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/nccl/run_on_nccl.h"
#include "cuda/ring/device_engine.h"

namespace ringscope::cuda {

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
  bool register_buffers_;
  RankLives lives_;
  std::map<int, DeviceClock> clocks_;  // by rank
};

}  // namespace ringscope::cuda
