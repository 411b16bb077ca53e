// All memory of one rank during a run, on the host or on a device, and the bill of it. The bill is
// a list of named buffers: RankMemory allocates by it, predictions add it up, and `plan` prints it.
// Every allocation is counted by meter(). Nothing grows with rows x rows, because a tiled kernel
// never holds the block of scores in S2's table ((S/N)^2; claim C43).
//
// S0, "Memory Complexity", counts 6 d c values per rank and head: Q, O, and two each of K and V.
// That is right for an output in the storage type (C34), but here it is accumulated in f32. S3,
// entry 4, prints 6 b c h bytes, which are values, and counts other tensors (C35).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/buffer.h"
#include "core/ring/problem.h"

namespace ringscope {

// One line of the bill: buffers of one kind.
struct MemoryPart {
  // What they hold. RankMemory allocates all but `other`, such as the backend's tile scratch.
  enum class Kind { q, out_accum, statistics, dout, dq, delta, kv, kv_inside, gradients, other };

  Kind kind = Kind::other;
  std::string name;
  double bytes = 0;  // of all the buffers
  // In b batch, c rows of a rank, q its queries if they are others, S seqlen, N world_size, H heads, G kv
  // heads, d head_dim, v head_dim_v, e bytes of a stored value, L layers.
  std::string formula;
  // How many buffers share the bytes: evenly, or (all-gather) by the rows of their owners.
  int buffers = 1;
  bool is_by_owner = false;
};

// Return the bill of a rank with so many rows of queries and of keys at its peak, during one layer's attention, also for
// Ulysses and two-level rings. Omit parts of 0 bytes.
//
//   always         Q, out_accum, row_max, row_sum, lse, tile scratch
//   ring           KV buffers that the blocks rotate through: 2, current and incoming, or more;
//                  with backward also the rank's own block, kept for its second trip
//   all-gather     KV blocks of all owners
//   others         the rank's own blocks, and what the scheme's extras count
//   with backward  dO, dQ, delta; f32 gradients of KV blocks: being summed, being sent, incoming
//                  (all-gather: those of all owners, and the incoming one)
std::vector<MemoryPart> memory_parts(const Problem& job, double query_rows, double rows);
inline std::vector<MemoryPart> memory_parts(const Problem& job, double rows) {
  return memory_parts(job, rows, rows);
}

double total_bytes(const std::vector<MemoryPart>& parts);

// Collects the parts of a bill.
class Bill {
 public:
  Bill(const Problem& job, double query_rows, double rows);
  std::vector<MemoryPart> parts();

  // What schemes add: buffers for as many of the largest KV blocks, and for their gradients; those of a
  // ring; and a place for every owner's block.
  void add_blocks(MemoryPart::Kind kind, std::string name, int count);
  void add_gradients(std::string name, int count);
  void add_ring_blocks();
  void add_gathered_blocks();

 private:
  bool has_two_widths() const { return job_.shape.value_dim() != job_.shape.head_dim; }
  // Return the formula of so many rows of K and V, as stored or in f32.
  std::string block_text(bool is_f32, std::string_view rows = "c",
                         std::string_view heads = "G") const;
  void add(MemoryPart::Kind kind, std::string name, double bytes, std::string formula,
           int buffers = 1, bool is_by_owner = false);
  // Add a number of buffers of one size; the formula is that of one of them.
  void add_buffers(MemoryPart::Kind kind, std::string name, int count, double bytes,
                   const std::string& formula);
  void add_query_side(const Extras& extras);
  void add_blocks_and_extras(const Extras& extras);

  const Problem& job_;
  double query_rows_, rows_;
  double e_;      // bytes of a stored value
  double block_;  // values of the largest KV block
  std::vector<MemoryPart> parts_;
};

class RankMemory {
  MemoryMeter meter_;  // outlives the buffers below

 public:
  // Allocate the parts of the bill in `space`. A ring's kv_buffers is at
  // least 2; more than world_size count as world_size. Throw std::bad_alloc and what the space
  // throws.
  RankMemory(const Problem& problem, int rank, MemorySpace& space = host_memory());

  // Return the bytes that the constructor allocates for these arguments.
  static Index predicted_bytes(const Problem& problem, int rank);

  MemoryMeter& meter() { return meter_; }
  const MemoryMeter& meter() const { return meter_; }

  // Return how many KV buffers the blocks rotate through (ring only). Step t + kv_buffers() reuses
  // the buffer of step t.
  int kv_buffers() const { return kv_buffers_; }
  // Return the buffer with the block of ring step `step`, or (all-gather) with `owner`'s block.
  std::byte* kv_at_step(int step);
  std::byte* kv_of_owner(int owner) { return kv_[owner].data(); }
  // Return the rank's own block, as the run begins.
  std::byte* own_kv();

  // Return the gradient sum of the block of ring step `step`, or (all-gather) of `owner`'s block.
  float* gradient_at_step(int step) { return gradients_[step % 2].data(); }
  float* gradient_of_owner(int owner) { return gradients_[owner].data(); }
  float* incoming_gradient() {
    return kv_inside_.empty() ? gradients_.back().data() : gradients_[2].data();
  }

  // --- What the other schemes hold (Scheme::extras). Positions in the query side's buffers
  // count rows of heads. Slot 0 begins where the rank's own queries do, the others hold queries that
  // came from elsewhere.
  Index slot(int i) const { return i == 0 ? 0 : own_rows_of_heads_ + (i - 1) * slot_rows_; }
  QueryBlock query_block(Index at, Index rows) {
    return {q.data() + at * head_dim_ * storage_bytes_,
            backward_ ? dout.data() + at * value_dim_ * storage_bytes_ : nullptr, rows};
  }
  SoftmaxState softmax_state(Index at = 0) {
    return {row_max.data() + at, row_sum.data() + at, out_accum.data() + at * value_dim_,
            lse.data() + at};
  }
  BackwardState backward_state(Index at = 0) {
    return {row_max.data() + at, row_sum.data() + at, out_accum.data() + at * value_dim_,
            delta.data() + at, dq.data() + at * head_dim_};
  }
  // Return extra buffer i for KV blocks or gradients, in the order of the bill.
  std::byte* extra_kv(int i) { return kv_inside_[i].data(); }
  float* extra_gradient(int i) { return gradients_[1 + i].data(); }
  // Return the buffer for the gradient of the rank's own block.
  float* own_gradient() { return gradients_[0].data(); }

  // Return what a two-level ring (two_level.h) holds at step (outer, inner): the block, and the
  // gradient sum that came from another node or goes there.
  std::byte* kv_at_turn(int outer, int inner);
  float* node_gradient(int outer) { return gradients_[3 + outer % 2].data(); }

  QueryBlock query_block() const { return {q.data(), dout.data(), rows_}; }

  Buffer<std::byte> q, dout;
  Buffer<float> row_max, lse, out_accum, delta, dq;
  Buffer<double> row_sum;

 private:
  int rank_;
  Index rows_;
  bool backward_, has_all_owners_ = false;
  int kv_buffers_, ranks_per_node_;
  Index own_rows_of_heads_, slot_rows_ = 0, head_dim_, value_dim_, storage_bytes_;
  std::vector<Buffer<std::byte>> kv_, kv_inside_;  // kv_inside_: those inside a node (two-level)
  std::vector<Buffer<float>> gradients_;
};

}  // namespace ringscope
