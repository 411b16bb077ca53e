// What a rank computes and records with on a CPU: the CPU kernels, and decorators around both seams
// that record and inject faults. Threads and MPI processes share it, whoever moves the blocks.
#pragma once

#include <memory>

#include "core/ring/cpu_backend.h"
#include "core/ring/thread_communicator.h"
#include "core/threads/engine.h"
#include "core/threads/faulty_ring.h"
#include "core/threads/rank.h"
#include "core/threads/recording.h"

namespace ringscope {

class CpuRankEngine : public RankEngine {
 public:
  // `rank` must outlive the engine.
  CpuRankEngine(std::unique_ptr<Communicator> blocks, Rank& rank, const Engine::Listener& listener,
                RankLives lives);

  Communicator& communicator() override { return communicator_; }
  BlockBackend& backend() override { return backend_; }
  void finish() override { communicator_.wait(); }
  void record() override { communicator_.flush_what_happened(); }
  void finish_failed() override { record(); }
  Index scratch_bytes() const override { return scratch_bytes_; }

 private:
  std::unique_ptr<Communicator> blocks_;
  CpuBackend cpu_;
  std::unique_ptr<BlockBackend> delayed_;  // injected delays around cpu_, or null
  Index scratch_bytes_;
  RecordingCommunicator communicator_;
  RecordingBackend backend_;
};

// ---
// Ranks on the CPU, one thread each. Threads copy blocks from each other and attend them there.

class ThreadEngine : public Engine {
 public:
  explicit ThreadEngine(int world_size) : ring_(world_size) {}

  std::string_view name() const override { return "cpu"; }
  MemorySpace& memory() override { return host_memory(); }
  bool has_pulses() const override { return true; }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;
  void fail(const RunError& error) override { ring_.fail(error); }
  void throw_if_failed() override { ring_.throw_if_failed(); }

 private:
  ThreadRing ring_;
};

}  // namespace ringscope
