// One rank of a run: its memory, its share of the inputs and outputs, and both passes. It works
// with any communicator and backend.
#pragma once

#include "core/ring/loop_counts.h"
#include "core/ring/problem.h"
#include "core/ring/rank_memory.h"
#include "core/threads/recording.h"
#include "core/threads/rows.h"

namespace ringscope {

// Return the rows of a tensor that a rank takes in or gives out.
inline LocalRows rows_of(Tensor tensor, const RingProblem& problem, int rank) {
  if (tensor == Tensor::dsink) return kOneRow;
  return is_key_side(tensor) ? problem.partition.rows_of(rank)
                             : problem.partition.queries.rows_of(rank);
}

class Rank {
 public:
  // Allocate in `space`. `config` and `problem` must outlive the rank. `origin_ns` is the monotonic
  // time that becomes 0 in the recording. Throw as RankMemory does.
  Rank(const Problem& config, const RingProblem& problem, int rank, MemorySpace& space,
       std::int64_t origin_ns);

  // Get this rank's rows of Q, K, V and, with backward, dO, in the order of for_each_piece, and
  // keep them rounded to the run's dtype. Like give_outputs, it can be stopped by its pulse.
  void take_inputs(RowSource& inputs);
  // Start both passes. They are over when everything started on `comm` and `backend` is.
  void run(Communicator& comm, BlockBackend& backend);
  // Put this rank's rows of out, lse and, with backward, dQ, dK, dV, in the order of
  // for_each_piece, as values of the run's dtype (lse: f32).
  void give_outputs(RowSink& outputs) const;

  int rank() const { return rank_; }
  const Problem& config() const { return config_; }
  const RingProblem& ring_problem() const { return problem_; }
  Recorder& recorder() { return recorder_; }
  RankPulse& pulse() { return pulse_; }
  RankMemory& memory() { return memory_; }  // for a loop of one's own, instead of run()
  MemoryMeter& meter() { return memory_.meter(); }
  Index peak_bytes() const { return memory_.meter().peak_bytes(); }
  const LoopCounts& counts() const { return counts_; }
  // Return what tells its recorder what it attends next.
  NextAttended next_attended() const { return NextAttended(counts_.attended); }
  // Return what it has recorded so far, without a clock error.
  RankEvents recorded() const;

 private:
  // Copy a piece of one of the rank's tensors, of its query side or of gradients, to `to`.
  template <class T>
  void copy_out(const RowsOfHead& piece, const T* local, T* to) const;
  void give_sink_gradients(RowSink& outputs) const;

  const Problem& config_;
  const RingProblem& problem_;
  int rank_;
  MemorySpace& space_;
  RankMemory memory_;
  LoopCounts counts_;
  Recorder recorder_;
  mutable RankPulse pulse_;
  bool has_final_lse_ = true;  // of the rows that it attended
  KvGradient home_;
};

}  // namespace ringscope
