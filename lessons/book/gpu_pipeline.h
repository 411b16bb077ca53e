// What lesson 14 and its exercise need for a kernel in which one thread fetches tiles and others
// take them: a matrix for the model's copy engine, and a run that says how it ended.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "cuda/base/shared_memory.h"
#include "cuda/kernels/stage_place.h"
#include "cuda/model/simt.h"
#include "cuda/ptx/barrier.h"
#include "cuda/ptx/tma.h"

namespace ringscope::lessons {

inline constexpr int kTileRows = 8, kTileColumns = 64, kTileValues = kTileRows * kTileColumns;

// A matrix of `tiles` tiles, one below the other, of small whole numbers.
inline std::vector<bf16> matrix_of_tiles(int tiles) {
  std::vector<bf16> matrix;
  for (int i = 0; i < tiles * kTileValues; ++i)
    matrix.push_back(bf16::from_float(static_cast<float>(i * 7 % 13 - 4)));
  return matrix;
}

// How the copy engine is told of it: row after row, 64 values each, a tile a copy.
inline cuda::TensorMap map_of(const std::vector<bf16>& matrix) {
  const auto rows = static_cast<std::int64_t>(matrix.size()) / kTileColumns;
  cuda::TensorMap map;
  map.address = reinterpret_cast<const unsigned char*>(matrix.data());
  map.rank = 3;
  const std::int64_t extent[] = {kTileColumns, rows, 1, 1};
  const std::int64_t stride[] = {2, 2 * kTileColumns, 2 * kTileColumns * rows, 0};
  const int box[] = {kTileColumns, kTileRows, 1, 1};
  for (int i = 0; i < 4; ++i) {
    map.extent[i] = extent[i];
    map.stride_bytes[i] = stride[i];
    map.box[i] = box[i];
  }
  return map;
}

// In shared memory: kStages buffers of a tile, and for each the barrier that ends a phase when the
// buffer is full, and the one that does when it is empty.
template <int kStages>
struct Stages {
  alignas(128) bf16 tile[kStages][kTileValues];
  cuda::ptx::Barrier full[kStages], empty[kStages];
};

// Runs kernel(shared, map, sums), one block of 32 threads and `consumers` more. sums[c] of consumer
// c begins as 0, and should become the sum of values c, c + consumers, ... of every tile. A full
// barrier takes one arrival (and the bytes that are announced), an empty one an arrival of each
// consumer. "right", "wrong sums", or what the model says of an error.
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

// The same in few words: "right", "wrong sums", "all wait for ever", "barrier overrun" (an arrival
// more than a phase takes).
inline std::string in_few_words(const std::string& outcome) {
  if (outcome.find("deadlock") != std::string::npos) return "all wait for ever";
  if (outcome.find("one arrival more") != std::string::npos) return "barrier overrun";
  return outcome;
}

// A wait and an arrival, unless they are the one that is to be left out.
inline int not_done = 0;
inline void wait(int number, cuda::ptx::Barrier& barrier, std::uint32_t parity) {
  if (number != not_done) cuda::ptx::barrier_wait(barrier, parity);
}
inline void arrive(int number, cuda::ptx::Barrier& barrier) {
  if (number != not_done) cuda::ptx::barrier_arrive(barrier);
}

}  // namespace ringscope::lessons
