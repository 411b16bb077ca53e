// Arguments of step 12, which computes the forward pass of a whole ring in one launch: every rank's blocks
// attend all KV blocks, and move them from rank to rank meanwhile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

inline constexpr int kMostFusedRanks = 16;  // whose arguments fit a launch
inline constexpr int kChunkRows = 128;      // the keys of a tile

// A rank holds KV blocks in three slots. Its own stays in the first. The others take turns in the other
// two: while a block is attended in one, and copied onward from it, the next one comes into the other.
inline constexpr int kSlots = 3;
__host__ __device__ constexpr int slot_of(int step) { return step == 0 ? 0 : 2 - step % 2; }

// What a rank has in memory. Another rank reads k, v and full, and counts at empty: on several GPUs these
// are addresses of a peer's memory.
struct FusedRank {
  int rows_q = 0;
  int rows_k = 0;           // of its own block
  const void* q = nullptr;  // [batch, heads, rows_q, head_dim]
  void* k = nullptr;        // [kSlots, batch, heads_kv, FusedRing::shape.rows_k, head_dim]
  void* v = nullptr;        // likewise; rows that a block does not have are zeros
  const RowInterval* allowed_keys = nullptr;  // [steps, rows_q]
  float* row_max = nullptr;                   // these as in ForwardStep
  double* row_sum = nullptr;
  float* out = nullptr;
  float* lse = nullptr;
  StepCounters* counters = nullptr;  // [steps]
  int* full = nullptr;   // [kSlots - 1, chunks]: the ring step whose chunk is there; at first 0
  int* empty = nullptr;  // [steps]: how many blocks are done with the KV block of that ring step
};

struct FusedRing {
  StepShape shape;  // of all ranks: rows_k is the most that one has, and rows_q unused
  float softmax_scale = 1.0f;
  const float* sink_logits = nullptr;  // [heads], or null
  int world_size = 1;
  int blocks = 1;  // of a rank
  FusedRank ranks[kMostFusedRanks];

  // A chunk is kChunkRows rows of a kv head's K and V, or what is left of them.
  __host__ __device__ constexpr int chunks_of_matrix() const {
    return tiles_for(shape.rows_k, kChunkRows);
  }
  __host__ __device__ constexpr int matrices() const { return shape.batch * shape.heads_kv; }
  __host__ __device__ constexpr int chunks() const { return matrices() * chunks_of_matrix(); }

  // Return whose block a rank attends at ring step `number`.
  __host__ __device__ constexpr int owner(int rank, int number) const {
    return rank >= number ? rank - number : rank - number + world_size;
  }
  // Return the arguments of that step, but for K and V. rows_k is that of a slot.
  __host__ __device__ ForwardStep step(int rank, int number) const {
    const FusedRank& mine = ranks[rank];
    ForwardStep step;
    step.shape = shape;
    step.shape.rows_q = mine.rows_q;
    step.softmax_scale = softmax_scale;
    step.first = number == 0;
    step.last = number == world_size - 1;
    step.q = mine.q;
    step.allowed_keys = mine.allowed_keys + std::int64_t{number} * mine.rows_q;
    step.row_max = mine.row_max;
    step.row_sum = mine.row_sum;
    step.out = mine.out;
    step.lse = mine.lse;
    step.counters = mine.counters + number;
    step.sink_logits = sink_logits;
    return step;
  }
};

// Enqueue the launch of world_size * blocks blocks, which the device must be able to run at once. All of
// full, empty and counters are zeros. Throws CudaError.
void launch_fused_ring(const FusedRing& ring, DType dtype, cudaStream_t stream);

}  // namespace ringscope::cuda
