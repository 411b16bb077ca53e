// Ranks on CPUs, a process each: blocks move by MPI, attended by the CPU kernels.
#pragma once

#include "core/mpi/mpi_communicator.h"
#include "core/process/lifeline.h"
#include "core/ring/engine.h"

namespace ringscope {

class MpiEngine : public Engine {
 public:
  // `line`, which hears of what the transfers find wrong, must outlive it.
  explicit MpiEngine(Lifeline& line) : line_(line) {}

  std::string_view name() const override { return "mpi"; }
  MemorySpace& memory() override { return host_memory(); }
  bool has_pulses() const override { return true; }
  // This process's rank.
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;
  // For communicators that work beside it and end with it.
  MpiWaits& waits() { return waits_; }
  void fail(const RunError& error) override { waits_.fail(error); }
  void throw_if_failed() override { waits_.throw_if_failed(); }

 private:
  Lifeline& line_;
  MpiWaits waits_;
};

}  // namespace ringscope
