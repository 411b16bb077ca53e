// Tests kernels that multiply with one mma or wgmma instruction, and maps the values of C to threads.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "cuda/base/launch.h"
#include "cuda/kernels/hopper_layout.h"
#include "cuda/kernels/mma_layout.h"
#include "cuda/model/simt.h"
#include "cuda/ptx/barrier.h"
#include "cuda/ptx/numbers.h"
#include "cuda/ptx/tensor_core.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"

namespace ringscope::lessons {

// Return whether multiply(a, b, c), run by the 32 threads of a warp, computes
// c [16, 8] = a [16, 16] b [16, 8] for small whole numbers, whose sums are exact.
template <class Multiply>
bool multiplies(const Multiply& multiply) {
  std::vector<float> a(16 * 16), b(16 * 8), c(16 * 8, NAN), exact(16 * 8, 0.0f);
  for (int i = 0; i < 16 * 16; ++i) a[i] = static_cast<float>(i * 7 % 11 - 5);
  for (int i = 0; i < 16 * 8; ++i) b[i] = static_cast<float>(i * 5 % 9 - 4);
  for (int i = 0; i < 16 * 8; ++i)
    for (int k = 0; k < 16; ++k) exact[i] += a[i / 8 * 16 + k] * b[k * 8 + i % 8];
  cuda::model::run_grid(1, 32, 0, [&] { multiply(a.data(), b.data(), c.data()); });
  return c == exact;
}

// Return the number of the thread that holds each value of rows 0 to 7 of C.
inline std::vector<double> holders_of_c() {
  std::vector<double> holders(8 * 8, -1.0);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 2; ++i)
      holders[cuda::mma::c_row(lane, i) * 8 + cuda::mma::c_column(lane, i)] = lane;
  return holders;
}

// Return whether each thread holds C's values at the places of its values in the left half of A.
inline bool c_is_laid_out_as_a() {
  bool same = true;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      same = same && cuda::mma::c_row(lane, i) == cuda::mma::a_row(lane, i / 2) &&
             cuda::mma::c_column(lane, i) == cuda::mma::a_k(lane, i / 2) + i % 2;
  return same;
}

// ---
// In the kernel of lesson 14 and its exercise one thread fetches tiles and others take them. This
// section has a matrix for the model's copy engine, and a run that reports how it ended.

inline constexpr int kTileRows = 8, kTileColumns = 64, kTileValues = kTileRows * kTileColumns;

// Return a matrix of small whole numbers with `tiles` tiles, one below the other.
inline std::vector<bf16> matrix_of_tiles(int tiles) {
  std::vector<bf16> matrix;
  for (int i = 0; i < tiles * kTileValues; ++i)
    matrix.push_back(bf16::from_float(static_cast<float>(i * 7 % 13 - 4)));
  return matrix;
}

// Describe it to the copy engine: rows of 64 values, and one tile of box_rows rows per copy.
inline cuda::TensorMap map_of(const std::vector<bf16>& matrix, int box_rows = kTileRows,
                              bool swizzled = false) {
  const auto rows = static_cast<std::int64_t>(matrix.size()) / kTileColumns;
  cuda::TensorMap map;
  map.address = reinterpret_cast<const unsigned char*>(matrix.data());
  map.rank = 3;
  const std::int64_t extent[] = {kTileColumns, rows, 1, 1};
  const std::int64_t stride[] = {2, 2 * kTileColumns, 2 * kTileColumns * rows, 0};
  map.swizzle_bytes = swizzled ? 128 : 0;
  const int box[] = {kTileColumns, box_rows, 1, 1};
  for (int i = 0; i < 4; ++i) {
    map.extent[i] = extent[i];
    map.stride_bytes[i] = stride[i];
    map.box[i] = box[i];
  }
  return map;
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

// Shorten an outcome to "right", "wrong sums", "all wait for ever", or "barrier overrun" (more
// arrivals than a phase takes).
inline std::string in_few_words(const std::string& outcome) {
  if (outcome.find("deadlock") != std::string::npos) return "all wait for ever";
  if (outcome.find("one arrival more") != std::string::npos) return "barrier overrun";
  return outcome;
}

// Wait or arrive, unless `number` is the operation that a lesson leaves out.
inline int not_done = 0;
inline void wait(int number, cuda::ptx::Barrier& barrier, std::uint32_t parity) {
  if (number != not_done) cuda::ptx::barrier_wait(barrier, parity);
}
inline void arrive(int number, cuda::ptx::Barrier& barrier) {
  if (number != not_done) cuda::ptx::barrier_arrive(barrier);
}

// ---
// Lessons 26 and 27 read what one copy has brought: by places, and as operands of wgmma.

// Return which 16-byte unit of its row a copy of 8 rows of 64 values has put at each place, row by row.
inline std::vector<double> units_after_copy(bool swizzled) {
  std::vector<bf16> matrix(kTileValues);
  for (int i = 0; i < kTileValues; ++i)
    matrix[i] = bf16::from_float(static_cast<float>(i % kTileColumns / 8));
  const cuda::TensorMap map = map_of(matrix, kTileRows, swizzled);
  std::vector<double> units;
  cuda::model::run_grid(1, 1, sizeof(Stages<1>), [&] {
    auto& shared = cuda::shared_memory<Stages<1>>();
    cuda::ptx::barrier_init(shared.full[0], 1);
    cuda::ptx::fence_barrier_init();
    cuda::ptx::barrier_arrive_expecting(shared.full[0], sizeof shared.tile[0]);
    cuda::ptx::tma_load(shared.tile[0], map, 0, 0, 0, shared.full[0]);
    cuda::ptx::barrier_wait(shared.full[0], 0);
    for (int i = 0; i < kTileValues; i += 8) units.push_back(shared.tile[0][i].to_float());
  });
  return units;
}

struct Operands {
  alignas(1024) bf16 a[64 * 64], b[64 * 64];
  cuda::ptx::Barrier full;
};

// Let 128 threads run multiply(operands, c), which should make c [64, 64] = a b^T of two tiles of
// small whole numbers, whose sums are exact. Return how many values of c are right: none if the model
// objects.
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

}  // namespace ringscope::lessons
