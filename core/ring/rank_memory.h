// All memory of one rank during a run, on the host or on a device. Every allocation is counted by
// meter(). Nothing grows with rows x rows.
//
//   always         Q, out_accum, row_max, row_sum, lse
//                  (and the backend's tile scratch, which the backend allocates on the same meter)
//   ring           KV buffers that the blocks rotate through: 2, current and incoming, or more;
//                  with backward also the rank's own block, kept for its second trip
//   two-level      as many for blocks from other nodes, and as many for those that arrive inside
//   all-gather     KV blocks of all owners
//   with backward  dO, dQ, delta; f32 gradients of KV blocks: being summed, being sent, incoming
//                  (all-gather: those of all owners, and the incoming one; two-level: two more
//                  for sums between nodes)
#pragma once

#include <vector>

#include "core/base/buffer.h"
#include "core/ring/problem.h"

namespace ringscope {

class RankMemory {
  MemoryMeter meter_;  // outlives the buffers below

 public:
  // Allocate in `space`. A ring's `kv_buffers` is at least 2; more than world_size count as
  // world_size. Throw std::bad_alloc and what the space throws.
  RankMemory(const RingProblem& problem, int rank, Scheme scheme, bool backward, int kv_buffers,
             MemorySpace& space = host_memory());

  // Return the bytes that the constructor allocates for these arguments.
  static Index predicted_bytes(const RingProblem& problem, int rank, Scheme scheme, bool backward,
                               int kv_buffers);

  MemoryMeter& meter() { return meter_; }
  const MemoryMeter& meter() const { return meter_; }

  // Return how many KV buffers the blocks rotate through (ring only). Step t + kv_buffers() reuses
  // the buffer of step t.
  int kv_buffers() const { return kv_buffers_; }
  // Return the buffer with the block of ring step `step`, or (all-gather) with `owner`'s block.
  std::byte* kv_at_step(int step);
  std::byte* kv_of_owner(int owner) { return kv_[static_cast<std::size_t>(owner)].data(); }
  // Return the rank's own block, as the run begins.
  std::byte* own_kv();

  // Return the gradient sum of the block of ring step `step`, or (all-gather) of `owner`'s block.
  float* gradient_at_step(int step) {
    return gradients_[static_cast<std::size_t>(step % 2)].data();
  }
  float* gradient_of_owner(int owner) { return gradients_[static_cast<std::size_t>(owner)].data(); }
  float* incoming_gradient() { return gradients_[static_cast<std::size_t>(incoming_)].data(); }
  // Return what a two-level ring (two_level.h) holds at step (outer, inner): the block, and the sum
  // that came from or goes to another node.
  std::byte* kv_at_turn(int outer, int inner);
  float* node_gradient(int outer) {
    return gradients_[static_cast<std::size_t>(3 + outer % 2)].data();
  }

  QueryBlock query_block() const { return {q.data(), dout.data(), rows_}; }
  SoftmaxState softmax_state() {
    return {row_max.data(), row_sum.data(), out_accum.data(), lse.data()};
  }
  BackwardState backward_state() {
    return {row_max.data(), row_sum.data(), out_accum.data(), delta.data(), dq.data()};
  }

  Buffer<std::byte> q, dout;
  Buffer<float> row_max, lse, out_accum, delta, dq;
  Buffer<double> row_sum;

 private:
  int rank_;
  Index rows_;
  Scheme scheme_;
  bool backward_;
  int kv_buffers_;
  int nodes_, ranks_per_node_;  // 1 and world_size but in a two-level ring
  int incoming_ = 0;            // index of the incoming gradient's buffer
  std::vector<Buffer<std::byte>> kv_;
  std::vector<Buffer<std::byte>> kv_inside_;  // two-level: blocks that arrive inside the node
  std::vector<Buffer<float>> gradients_;
};

}  // namespace ringscope
