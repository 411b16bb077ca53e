#include "core/ring/rank_memory.h"

#include <algorithm>

namespace ringscope {

namespace {

bool is_two_level(const RingProblem& problem, Scheme scheme) {
  return scheme == Scheme::two_level && problem.nodes > 1 &&
         problem.nodes < problem.partition.world_size;
}

}  // namespace

RankMemory::RankMemory(const RingProblem& problem, int rank, Scheme scheme, bool backward,
                       int kv_buffers, MemorySpace& space)
    : meter_(space),
      rank_(rank),
      rows_(problem.rows(rank)),
      scheme_(scheme),
      backward_(backward),
      kv_buffers_(std::min(kv_buffers, problem.partition.world_size)),
      nodes_(is_two_level(problem, scheme) ? problem.nodes : 1),
      ranks_per_node_(problem.partition.world_size / nodes_) {
  const AttentionParams& params = problem.params;
  const Index stored_query_bytes = params.query_values(rows_) * bytes_of(params.dtype);
  q = {&meter_, stored_query_bytes};
  out_accum = {&meter_, params.query_values(rows_)};
  row_max = {&meter_, params.row_values(rows_)};
  row_sum = {&meter_, params.row_values(rows_)};
  lse = {&meter_, params.row_values(rows_)};
  if (backward) {
    dout = {&meter_, stored_query_bytes};
    dq = {&meter_, params.query_values(rows_)};
    delta = {&meter_, params.row_values(rows_)};
  }

  const int n = problem.partition.world_size;
  // Blocks of different owners share a buffer, so it has room for the largest.
  const Index most_values = 2 * params.kv_values(problem.partition.max_rows());
  if (scheme == Scheme::allgather) {
    for (int owner = 0; owner < n; ++owner) {
      kv_.emplace_back(&meter_, problem.kv_bytes(owner));
      if (backward) gradients_.emplace_back(&meter_, problem.gradient_bytes(owner) / 4);
    }
    if (backward && n > 1) gradients_.emplace_back(&meter_, most_values);
    incoming_ = static_cast<int>(gradients_.size()) - 1;
    return;
  }
  const int turns = nodes_ > 1 ? nodes_ : n;  // of the ring that the rank's own block starts in
  const int kv_blocks = std::min(turns, kv_buffers_ + (backward ? 1 : 0));
  const int gradient_buffers = !backward ? 0 : n == 1 ? 1 : nodes_ > 1 ? 5 : 3;
  incoming_ = n == 1 ? 0 : 2;
  const Index most_bytes = most_values * bytes_of(params.dtype);
  for (int i = 0; i < kv_blocks; ++i) kv_.emplace_back(&meter_, most_bytes);
  if (nodes_ > 1) {
    kv_inside_.resize(static_cast<std::size_t>(kv_buffers_));
    for (int step = 0; step < n; ++step) {
      Buffer<std::byte>& buffer = kv_inside_[static_cast<std::size_t>(step % kv_buffers_)];
      if (step % ranks_per_node_ != 0 && buffer.size() == 0) buffer = {&meter_, most_bytes};
    }
  }
  for (int i = 0; i < gradient_buffers; ++i) gradients_.emplace_back(&meter_, most_values);
}

Index RankMemory::predicted_bytes(const RingProblem& problem, int rank, Scheme scheme,
                                  bool backward, int kv_buffers) {
  const AttentionParams& params = problem.params;
  const Index rows = problem.rows(rank), storage = bytes_of(params.dtype);
  const int n = problem.partition.world_size;
  const Index query_side =
      params.query_values(rows) * (storage + 4) + (4 + 8 + 4) * params.row_values(rows);
  const Index backward_side =
      params.query_values(rows) * (storage + 4) + 4 * params.row_values(rows);
  const Index block_values = 2 * params.kv_values(problem.partition.max_rows());
  const Index all_values = 2 * params.kv_values(problem.partition.seqlen);
  if (scheme == Scheme::allgather)
    return query_side + storage * all_values +
           (backward ? backward_side + 4 * all_values + (n > 1 ? 4 * block_values : 0) : 0);
  if (!backward) return query_side + std::min(n, kv_buffers) * storage * block_values;
  // kv_buffers + 1 could overflow, because kv_buffers may be any int.
  const Index kv_blocks = kv_buffers < n ? kv_buffers + 1 : n;
  return query_side + backward_side + (kv_blocks * storage + (n == 1 ? 1 : 3) * 4) * block_values;
}

std::byte* RankMemory::own_kv() {
  return scheme_ == Scheme::allgather ? kv_of_owner(rank_) : kv_at_step(0);
}

std::byte* RankMemory::kv_at_step(int step) {
  // With backward, buffer 0 keeps the own block, and the later blocks rotate through the others.
  const int buffer = !backward_ ? step % kv_buffers_ : step == 0 ? 0 : 1 + (step - 1) % kv_buffers_;
  return kv_[static_cast<std::size_t>(buffer)].data();
}

std::byte* RankMemory::kv_at_turn(int outer, int inner) {
  if (inner == 0) return kv_at_step(outer);
  const int step = outer * ranks_per_node_ + inner;
  return kv_inside_[static_cast<std::size_t>(step % kv_buffers_)].data();
}

}  // namespace ringscope
