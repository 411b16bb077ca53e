// One rank's place in the attention ring, which lasts as long as its model. All layers and all
// training steps share its memory, backend and communicator, because only one attention is computed
// at a time. What a layer needs between its forward and its backward pass, the layer keeps itself.
#pragma once

#include <functional>

#include "core/ring/cpu_backend.h"
#include "core/ring/ring.h"
#include "core/trace/event.h"

namespace ringscope {

// Seconds spent inside the passes, including waits for peers.
struct AttentionSeconds {
  double forward = 0, backward = 0;
};

class ContextRing {
 public:
  // Prepare both passes of attention on the CPU for `problem`, which is that of all layers
  // (attention_problem()). `comm` and `pulse`, which may be null, must outlive it. Throw
  // std::invalid_argument when the world_size of `problem` is not that of `comm`, and std::bad_alloc.
  ContextRing(const Problem& problem, Communicator& comm, WorkPulse* pulse = nullptr);
  ContextRing(const ContextRing&) = delete;
  ContextRing& operator=(const ContextRing&) = delete;

  const Problem& problem() const { return problem_; }
  const RingProblem& ring_problem() const { return ring_problem_; }
  int rank() const { return comm_->rank(); }
  LocalRows local_rows() const { return ring_problem_.partition.rows_of(rank()); }
  // Return the number of rows over all sequences of the batch.
  Index tokens() const { return problem_.shape.batch * local_rows().size(); }
  MemoryMeter& meter() { return memory_.meter(); }
  // Return the pulse for the rank's other work on its rows; may be null.
  WorkPulse* pulse() const { return pulse_; }

  // Run both passes over these from now on. They may be the ring's own ones with a recording around
  // them, and must outlive the passes.
  void run_over(Communicator& comm, BlockBackend& backend);
  void run_over_own();
  BlockBackend& own_backend() { return backend_; }
  Communicator& own_communicator() { return own_comm_; }

  // Called on the rank's thread when a part of a training step begins, which ends the part before
  // it. `layer` is -1 for a part outside the layers. An empty listener ends the calls.
  using PartListener = std::function<void(ModelPart part, Pass pass, Index layer)>;
  void listen(PartListener listener) { listener_ = std::move(listener); }
  // Announce a part of the work on the ring's rows. Throw RunError after pulse->stop().
  void begins(ModelPart part, Pass pass = Pass::forward, Index layer = -1) const {
    if (pulse_ != nullptr) pulse_->tick();
    if (listener_) listener_(part, pass, layer);
  }

  // RankMemory's buffers, [batch, heads, rows, head_dim]; q, kv (K, then V) and dout are in the
  // storage type. forward() reads q and kv and writes out, row_max and row_sum. backward() reads
  // all of these and dout, writes dq, and returns dK followed by dV. Both finish before they
  // return, and throw RunError.
  std::byte* q() { return memory_.q.data(); }
  std::byte* kv() { return memory_.own_kv(); }
  std::byte* dout() { return memory_.dout.data(); }
  float* out() { return memory_.out_accum.data(); }
  float* row_max() { return memory_.row_max.data(); }
  double* row_sum() { return memory_.row_sum.data(); }
  const float* dq() const { return memory_.dq.data(); }

  // Call f(rows, at, size) for each part of K, of V or of their gradients: which of the rank's rows they
  // are, how many values of each of the two are in the parts before it, and how many it has of each.
  // There is one part unless the ring sends only what is needed (core/ring/needed_ring.cpp).
  template <class F>
  void for_parts(const F& f) const {
    const auto part = [&](const Run& rows, Index at) {
      f(rows, kv_values(problem_.shape, at), kv_values(problem_.shape, rows.count));
    };
    if (ring_problem_.parted == nullptr) return part({0, 1, local_rows().size()}, 0);
    for (const BlockPart& its : ring_problem_.parted->of_owner[rank()])
      part({its.first, its.step, its.size()}, its.at);
  }

  void forward();
  KvGradient backward();
  // Return the time of all passes so far, and when the last one was, by monotonic_ns().
  const AttentionSeconds& seconds() const { return seconds_; }
  std::int64_t pass_begin_ns() const { return begin_ns_; }
  std::int64_t pass_end_ns() const { return end_ns_; }

 private:
  Problem problem_;
  RingProblem ring_problem_;  // points into problem_
  Communicator& own_comm_;
  WorkPulse* pulse_;
  RankMemory memory_;
  CpuBackend backend_;
  Communicator* comm_;
  BlockBackend* block_backend_;
  AttentionSeconds seconds_;
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  PartListener listener_;
};

}  // namespace ringscope
