// What a rank computes and records with on a CPU, whoever moves its blocks: the CPU kernels, and the
// decorators around both seams, which record and commit faults. Threads and MPI processes share it.
#pragma once

#include <memory>

#include "core/ring/cpu_backend.h"
#include "core/ring/engine.h"
#include "core/ring/faulty_communicator.h"
#include "core/ring/rank.h"
#include "core/ring/recording.h"

namespace ringscope {

class CpuRankEngine : public RankEngine {
 public:
  // `rank` must outlive it.
  CpuRankEngine(std::unique_ptr<Communicator> blocks, Rank& rank, const Engine::Listener& listener,
                RankLives lives);

  Communicator& communicator() override { return communicator_; }
  BlockBackend& backend() override { return backend_; }
  void finish() override { communicator_.flush(); }
  void finish_failed() override;
  Index scratch_bytes() const override { return scratch_bytes_; }

 private:
  Recorder& recorder_;
  std::unique_ptr<Communicator> blocks_;
  CpuBackend cpu_;
  std::unique_ptr<BlockBackend> delayed_;  // around it, or null
  Index scratch_bytes_;
  RecordingCommunicator communicator_;
  RecordingBackend backend_;
};

}  // namespace ringscope
