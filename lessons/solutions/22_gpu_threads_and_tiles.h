// Exercise 22, solved.
#pragma once

#include "lessons/book/gpu.h"

using ringscope::lessons::Counted;

inline void find_scores(const float* q, Counted keys, Counted shared, float* scores) {
  constexpr int kRow = 33;  // of words: the banks of a column are all different
  const int j = static_cast<int>(threadIdx.x);
  for (int i = j; i < 64 * 32; i += 64) shared[i / 32 * kRow + i % 32] = keys[i];
  __syncthreads();
  float score = 0;
  for (int x = 0; x < 32; ++x) score += q[x] * shared[j * kRow + x];
  scores[j] = score;
}
