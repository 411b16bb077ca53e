// Tries a kernel that multiplies by one mma instruction, and tells which thread holds what of C.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <vector>

#include "cuda/kernels/mma_layout.h"
#include "cuda/model/simt.h"
#include "cuda/ptx/numbers.h"
#include "cuda/ptx/tensor_core.h"

namespace ringscope::lessons {

// multiply(a, b, c), by the 32 threads of a warp: c [16, 8] = a [16, 16] b [16, 8]. Whether that is
// so for small whole numbers, of which sums are exact.
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

// The number of the thread that holds each value of rows 0 to 7 of C.
inline std::vector<double> holders_of_c() {
  std::vector<double> holders(8 * 8, -1.0);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 2; ++i)
      holders[cuda::mma::c_row(lane, i) * 8 + cuda::mma::c_column(lane, i)] = lane;
  return holders;
}

// Whether a thread holds the values of C at the places where it holds the left half of A.
inline bool c_is_laid_out_as_a() {
  bool same = true;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      same = same && cuda::mma::c_row(lane, i) == cuda::mma::a_row(lane, i / 2) &&
             cuda::mma::c_column(lane, i) == cuda::mma::a_k(lane, i / 2) + i % 2;
  return same;
}

}  // namespace ringscope::lessons
