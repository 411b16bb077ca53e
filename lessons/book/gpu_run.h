// Runs a lesson's attention kernel on the model of a GPU, and counts what it reads.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <vector>

#include "core/attention/naive.h"
#include "core/ring/rows.h"
#include "cuda/model/simt.h"
#include "lessons/book/gpu_memory.h"
#include "lessons/book/problem.h"

namespace ringscope::lessons {

// What a kernel is given: one head's Q, K, V and out, each [seqlen, head_dim], and the shared
// memory of its block, poisoned with NaN.
struct GpuArrays {
  const float* q;
  Counted k, v;
  float* out;
  Counted shared;
};

struct GpuRun {
  MemoryCount global, shared;  // of K and V in global memory; of shared memory
  std::vector<float> out;      // NaN where nothing was written
};

struct GpuGrid {
  int blocks, threads;
  Index shared_floats = 0;  // a block
};

// kernel(arrays), by every thread of the grid.
template <class Kernel>
GpuRun run_kernel(const Kernel& kernel, const GpuGrid& grid, const AttentionInputs& in,
                  cuda::model::ThreadOrder order = cuda::model::ThreadOrder::ascending) {
  GpuRun run;
  std::vector<float> k = in.k, v = in.v;
  run.out.assign(in.q.size(), NAN);
  cuda::model::set_schedule({.order = order});
  cuda::model::run_grid(
      grid.blocks, grid.threads, static_cast<std::size_t>(grid.shared_floats) * sizeof(float), [&] {
        kernel(GpuArrays{in.q.data(), Counted(k.data(), run.global), Counted(v.data(), run.global),
                         run.out.data(), shared_floats(run.shared)});
      });
  cuda::model::set_schedule({});
  return run;
}

// Rows of out that naive attention (softmax_scale 1) has otherwise by more than 1e-5; one head.
inline int wrong_rows(const GpuRun& run, const AttentionInputs& in, Index head_dim) {
  const auto size = static_cast<Index>(in.q.size());
  const AttentionShape shape{.seqlen = size / head_dim, .head_dim = head_dim};
  const auto exact = naive_attention<float>(shape, Mask{.seqlen = shape.seqlen}, 1, in.q.data(),
                                            in.k.data(), in.v.data(), nullptr);
  int wrong = 0;
  for (Index first = 0; first < size; first += head_dim) {
    bool right = true;
    for (Index i = first; i < first + head_dim; ++i)
      right = right && std::abs(run.out[static_cast<std::size_t>(i)] -
                                exact.out[static_cast<std::size_t>(i)]) <= 1e-5f;
    wrong += !right;
  }
  return wrong;
}

// A row of values into registers.
template <class Pointer, std::size_t kCount>
void read(float (&to)[kCount], Pointer from) {
  for (std::size_t x = 0; x < kCount; ++x) to[x] = from[static_cast<int>(x)];
}

// A query row and its carried state: m = row_max, l = row_sum, out unnormalised.
template <int kDim>
struct GpuRow {
  float q[kDim], out[kDim] = {}, m = -INFINITY, l = 0;

  template <class Pointer>           // float*, or Counted
  void meet(Pointer k, Pointer v) {  // one key
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

// CUDA's __syncthreads(), unless it is the one that is to be left out.
inline int left_out = 0;
inline void barrier(int number) {
  if (number != left_out) __syncthreads();
}

}  // namespace ringscope::lessons
