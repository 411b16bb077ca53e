// One rank of a run: its memory, its share of the inputs and outputs, and both passes, over whatever
// communicator and backend it is given.
#pragma once

#include "core/ring/problem.h"
#include "core/ring/rank_memory.h"
#include "core/ring/seams.h"
#include "core/run/rows.h"
#include "core/run/watchdog.h"
#include "core/trace/recorder.h"

namespace ringscope {

class Rank {
 public:
  // Allocates in `space`. `config` and `problem` must outlive it. `origin_ns`: the monotonic time
  // that becomes 0 in the recording. Throws as RankMemory.
  Rank(const RingConfig& config, const RingProblem& problem, int rank, MemorySpace& space,
       std::int64_t origin_ns);

  // Gets this rank's rows of Q, K, V and, with backward, dO, in the order of for_each_piece, and
  // keeps them rounded to the run's dtype. Can be stopped by its pulse, like give_outputs.
  void take_inputs(RowSource& inputs);
  // Starts both passes; they are over when everything that was started on `comm` and `backend` is.
  void run(Communicator& comm, BlockBackend& backend);
  // Puts this rank's rows of out, lse and, with backward, dQ, dK, dV, in the order of
  // for_each_piece, as values of the run's dtype (lse: f32).
  void give_outputs(RowSink& outputs) const;

  int rank() const { return rank_; }
  const RingConfig& config() const { return config_; }
  const RingProblem& problem() const { return problem_; }
  Recorder& recorder() { return recorder_; }
  RankPulse& pulse() { return pulse_; }
  MemoryMeter& meter() { return memory_.meter(); }
  Index peak_bytes() const { return memory_.meter().peak_bytes(); }

 private:
  const RingConfig& config_;
  const RingProblem& problem_;
  int rank_;
  LocalRows rows_;
  MemorySpace& space_;
  RankMemory memory_;
  Recorder recorder_;
  mutable RankPulse pulse_;
  KvGradient home_;
};

}  // namespace ringscope
