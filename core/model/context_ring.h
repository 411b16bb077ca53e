// One rank's seat at the ring, for as long as it lives: all layers of a model and all its steps
// take turns at one RankMemory, one backend and one communicator, since only one attention is
// computed at a time. What an attention layer has to keep from its forward to its backward pass it
// keeps itself.
#pragma once

#include <functional>

#include "core/ring/cpu_backend.h"
#include "core/ring/ring.h"
#include "core/trace/event.h"

namespace ringscope {

// Time inside the passes, waits for peers included.
struct AttentionSeconds {
  double forward = 0, backward = 0;
};

class ContextRing {
 public:
  // Attention on the CPU, f32. `problem` says it for all layers; `comm` must outlive it, as must
  // `pulse`, which may be null. Throws std::invalid_argument when the problem is not of the ring's
  // world_size, or not of f32; std::bad_alloc.
  ContextRing(const RingProblem& problem, Communicator& comm, Scheme scheme = Scheme::ring,
              WorkPulse* pulse = nullptr);
  ContextRing(const ContextRing&) = delete;
  ContextRing& operator=(const ContextRing&) = delete;

  const RingProblem& problem() const { return problem_; }
  int rank() const { return comm_->rank(); }
  LocalRows local_rows() const { return problem_.partition.rows_of(rank()); }
  // Rows of all sequences of the batch.
  Index tokens() const { return problem_.params.batch * local_rows().size(); }
  MemoryMeter& meter() { return memory_.meter(); }
  // For what else the rank computes on its rows; may be null.
  WorkPulse* pulse() const { return pulse_; }

  // From here on both passes run over these: the same ones with a recording around them, say. They
  // must outlive the passes.
  void run_over(Communicator& comm, BlockBackend& backend);
  void run_over_own();
  BlockBackend& own_backend() { return backend_; }
  Communicator& own_communicator() { return own_comm_; }

  // Called on the rank's thread when it begins with a part of a training step, which ends where the
  // next one begins; `layer` is -1 for a part of none. An empty one ends that.
  using PartListener = std::function<void(ModelPart part, Pass pass, Index layer)>;
  void listen(PartListener listener) { listener_ = std::move(listener); }
  // Said by whoever computes with the ring's rows. Throws RunError after pulse->stop().
  void begins(ModelPart part, Pass pass = Pass::forward, Index layer = -1) const {
    if (pulse_ != nullptr) pulse_->tick();
    if (listener_) listener_(part, pass, layer);
  }

  // [batch, heads, rows, head_dim], as in RankMemory. forward() reads q, k and v and leaves out,
  // row_max and row_sum. backward() reads all of them and dout, and leaves dq; it returns dK, then
  // dV. All has happened when they return. Throw RunError.
  float* q() { return reinterpret_cast<float*>(memory_.q.data()); }
  float* k() { return reinterpret_cast<float*>(memory_.own_kv()); }
  float* v() { return k() + problem_.params.kv_values(local_rows().size()); }
  float* dout() { return reinterpret_cast<float*>(memory_.dout.data()); }
  float* out() { return memory_.out_accum.data(); }
  float* row_max() { return memory_.row_max.data(); }
  double* row_sum() { return memory_.row_sum.data(); }
  const float* dq() const { return memory_.dq.data(); }

  void forward();
  KvGradient backward();
  // Of all passes so far.
  const AttentionSeconds& seconds() const { return seconds_; }

 private:
  RingProblem problem_;
  Communicator& own_comm_;
  Scheme scheme_;
  WorkPulse* pulse_;
  RankMemory memory_;
  CpuBackend backend_;
  Communicator* comm_;
  BlockBackend* block_backend_;
  AttentionSeconds seconds_;
  PartListener listener_;
};

}  // namespace ringscope
