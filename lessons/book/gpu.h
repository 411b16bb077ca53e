// What the lessons on GPUs run on the model of one: kernels without tensor cores (lesson 22), and copies and
// products by one instruction (23, 24 and 25).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/attention/naive.h"
#include "core/base/dtype.h"
#include "cuda/base/launch.h"
#include "cuda/emulator/memory_count.h"
#include "cuda/emulator/simt.h"
#include "cuda/kernels/fused_ring.h"
#include "cuda/kernels/hopper_layout.h"
#include "cuda/kernels/mma_layout.h"
#include "cuda/ptx/barrier.h"
#include "cuda/ptx/handover.h"
#include "cuda/ptx/numbers.h"
#include "cuda/ptx/tensor_core.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {

using cuda::model::access_of;
using cuda::model::Counted;
using cuda::model::MemoryCount;
using cuda::model::shared_floats;

// ---
// A lesson's attention kernel runs on the model of a GPU, which counts its reads.

// A kernel's arguments: one head's Q, K, V and out, each [seqlen, head_dim], and the block's shared
// memory, filled with NaN.
struct GpuArrays {
  const float* q;
  Counted k, v;
  float* out;
  Counted shared;
};

struct GpuRun {
  MemoryCount global, shared;  // of K and V in global memory; of shared memory
  std::vector<float> out;      // NaN if never written
};

struct GpuGrid {
  int blocks, threads;
  Index shared_floats = 0;  // per block
};

// Run kernel(arrays) in every thread of the grid.
template <class Kernel>
GpuRun run_kernel(const Kernel& kernel, const GpuGrid& grid, const AttentionInputs& in) {
  GpuRun run;
  std::vector<float> k = in.k, v = in.v;
  run.out.assign(in.q.size(), NAN);
  cuda::model::run_grid(
      grid.blocks, grid.threads, static_cast<std::size_t>(grid.shared_floats) * sizeof(float), [&] {
        kernel(GpuArrays{in.q.data(), Counted(k.data(), run.global), Counted(v.data(), run.global),
                         run.out.data(), shared_floats(run.shared)});
      });
  return run;
}

// Count the rows of out that differ from naive attention (softmax_scale 1, one head) by over 1e-5.
inline int wrong_rows(const GpuRun& run, const AttentionInputs& in, Index head_dim) {
  const AttentionShape shape{.seqlen = static_cast<Index>(in.q.size()) / head_dim,
                             .head_dim = head_dim};
  const auto exact = naive_attention<float>(shape, Mask{.seqlen = shape.seqlen}, 1, in.q.data(),
                                            in.k.data(), in.v.data(), nullptr);
  int wrong = 0;
  for (Index row = 0; row < shape.seqlen; ++row) {
    const auto first = static_cast<std::size_t>(row * head_dim);
    wrong += !std::equal(run.out.begin() + first, run.out.begin() + first + head_dim,
                         exact.out.begin() + first,
                         [](float a, float b) { return std::abs(a - b) <= 1e-5f; });
  }
  return wrong;
}

// Read a row of values into registers.
template <class Pointer, std::size_t kCount>
void read(float (&to)[kCount], Pointer from) {
  for (std::size_t x = 0; x < kCount; ++x) to[x] = from[static_cast<int>(x)];
}

// A query row and its carried state: m = row_max, l = row_sum, out is unnormalised.
template <int kDim>
struct GpuRow {
  float q[kDim], out[kDim] = {}, m = -INFINITY, l = 0;

  template <class Pointer>           // float* or Counted
  void meet(Pointer k, Pointer v) {  // attends one key
    float score = 0;
    for (int x = 0; x < kDim; ++x) score += q[x] * k[x];
    const float new_m = fmaxf(m, score), factor = expf(m - new_m), p = expf(score - new_m);
    for (int x = 0; x < kDim; ++x) out[x] = out[x] * factor + p * v[x];
    l = l * factor + p;
    m = new_m;
  }
  void write(float* to) const {
    for (int x = 0; x < kDim; ++x) to[x] = out[x] / l;
  }
};

// ---
// In the kernel of lesson 23 and its exercise one thread fetches tiles and others take them. This
// section has a matrix for the model's TMA, and a run that reports how it ended.

inline constexpr int kTileRows = 8, kTileColumns = 64, kTileValues = kTileRows * kTileColumns;

// Return a matrix of small whole numbers with `tiles` tiles, one below the other.
inline std::vector<bf16> matrix_of_tiles(int tiles) {
  std::vector<bf16> matrix;
  for (int i = 0; i < tiles * kTileValues; ++i)
    matrix.push_back(bf16::from_float(static_cast<float>(i * 7 % 13 - 4)));
  return matrix;
}

// Describe it to the TMA: rows of 64 values, and one tile of box_rows rows per copy.
inline cuda::TensorMap map_of(const std::vector<bf16>& matrix, int box_rows = kTileRows,
                              bool swizzled = false) {
  const auto rows = static_cast<std::int64_t>(matrix.size()) / kTileColumns;
  return {.address = reinterpret_cast<const unsigned char*>(matrix.data()),
          .rank = 3,
          .swizzle_bytes = swizzled ? 128 : 0,
          .extent = {kTileColumns, rows, 1, 1},
          .stride_bytes = {2, 2 * kTileColumns, 2 * kTileColumns * rows, 0},
          .box = {kTileColumns, box_rows, 1, 1}};
}

// The shared memory: kStages tile buffers with two barriers each. The full barrier ends a phase
// when the buffer is full, and the empty one when it is empty.
template <int kStages>
struct Stages {
  alignas(128) bf16 tile[kStages][kTileValues];
  cuda::ptx::Barrier full[kStages], empty[kStages];
};

// Run kernel(shared, map, sums) on one block of 32 threads and `consumers` more. sums[c] starts at
// 0, and consumer c should make it the sum of values c, c + consumers, ... of every tile. A full
// barrier takes one arrival (and the announced bytes), an empty one takes an arrival per consumer.
// Return "right", "wrong sums", or the model's error message.
template <int kStages, class Kernel>
std::string outcome_of(const Kernel& kernel, int tiles, int consumers,
                       const cuda::model::Schedule& schedule) {
  const std::vector<bf16> matrix = matrix_of_tiles(tiles);
  const cuda::TensorMap map = map_of(matrix);
  std::vector<float> sums(static_cast<std::size_t>(consumers)), expected = sums;
  for (std::size_t i = 0; i < matrix.size(); ++i)
    expected[i % kTileValues % sums.size()] += matrix[i].to_float();
  cuda::model::set_schedule(schedule);
  std::string error;
  try {
    cuda::model::run_grid(1, static_cast<unsigned>(32 + consumers), sizeof(Stages<kStages>), [&] {
      auto& shared = cuda::shared_memory<Stages<kStages>>();
      if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
          cuda::ptx::barrier_init(shared.full[stage], 1);
          cuda::ptx::barrier_init(shared.empty[stage], consumers);
        }
        cuda::ptx::fence_barrier_init();
      }
      __syncthreads();
      kernel(shared, map, sums.data());
    });
  } catch (const cuda::model::ModelError& model_error) {
    error = model_error.what();
  }
  cuda::model::set_schedule({});
  if (!error.empty()) return error;
  return sums == expected ? "right" : "wrong sums";
}

// Wait at a barrier or arrive there, unless `number` is the call that a lesson leaves out.
inline int left_out = 0;
inline void barrier(int number) {
  if (number != left_out) __syncthreads();
}
inline void wait(int number, cuda::ptx::Barrier& barrier, std::uint32_t parity) {
  if (number != left_out) cuda::ptx::barrier_wait(barrier, parity);
}
inline void arrive(int number, cuda::ptx::Barrier& barrier) {
  if (number != left_out) cuda::ptx::barrier_arrive(barrier);
}

// ---
// Lessons 24 and 25 read what one copy has brought: by places, and as operands of wgmma.

struct Operands {
  alignas(1024) bf16 a[64 * 64], b[64 * 64];
  cuda::ptx::Barrier full;
};

// Let 128 threads run multiply(operands, c), which should make c [64, 64] = a b^T of two tiles of
// small whole numbers, whose sums are exact. Return how many values of c are right: none if the
// model objects.
template <class Multiply>
int right_products(const Multiply& multiply, bool swizzled = true) {
  const std::vector<bf16> matrix = matrix_of_tiles(16);  // a above b
  const cuda::TensorMap map = map_of(matrix, 64, swizzled);
  std::vector<float> c(64 * 64, NAN);
  const auto kernel = [&] {
    auto& shared = cuda::shared_memory<Operands>();
    if (threadIdx.x == 0) {
      cuda::ptx::barrier_init(shared.full, 1);
      cuda::ptx::fence_barrier_init();
      cuda::ptx::barrier_arrive_expecting(shared.full, sizeof shared.a + sizeof shared.b);
      cuda::ptx::tma_load(shared.a, map, 0, 0, 0, shared.full);
      cuda::ptx::tma_load(shared.b, map, 0, 64, 0, shared.full);
    }
    __syncthreads();
    cuda::ptx::barrier_wait(shared.full, 0);
    multiply(shared, c.data());
  };
  try {
    cuda::model::run_grid(1, 128, sizeof(Operands), kernel);
  } catch (const cuda::model::ModelError&) {
    return 0;
  }
  int right = 0;
  for (int i = 0; i < 64 * 64; ++i) {
    float sum = 0;
    for (int k = 0; k < 64; ++k)
      sum += matrix[i / 64 * 64 + k].to_float() * matrix[4096 + i % 64 * 64 + k].to_float();
    right += c[i] == sum;
  }
  return right;
}

// ---
// In lesson 26 a ring runs inside one kernel.

// What a rank has in memory: slots for blocks of one number, flags, and the sum of the blocks it has met.
inline constexpr int kRanks = 6;
struct RankMemory {
  float slot[cuda::kSlots] = {NAN, NAN, NAN};
  int full[cuda::kSlots] = {}, empty[kRanks] = {};
  float sum = 0;
};

// Run kernel(ranks), a block of two warps per rank, all at once. Return "right" if every rank has met each
// block once.
template <class Kernel>
std::string ring_outcome(const Kernel& kernel, cuda::model::ThreadOrder order) {
  std::array<RankMemory, kRanks> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks[rank].slot[0] = static_cast<float>(1 << rank);
  cuda::model::set_schedule({.order = order});
  std::string outcome = "right";
  try {
    cuda::model::run_grid(
        kRanks, 64, 0, [&] { kernel(ranks); }, true);
  } catch (const cuda::model::ModelError&) {
    outcome = "all wait for ever";
  }
  cuda::model::set_schedule({});
  for (const RankMemory& rank : ranks)
    if (outcome == "right" && rank.sum != (1 << kRanks) - 1) outcome = "wrong sums";
  return outcome;
}

// Wait for a flag, or count at one, unless `number` is the call that the lesson leaves out.
inline void await(int number, const int& flag, int value) {
  if (number != left_out) cuda::ptx::await_memory_turn(&flag, value);
}
inline void count(int number, int& flag) {
  if (number != left_out) cuda::ptx::count_memory_turn(&flag);
}

}  // namespace ringscope::lessons
