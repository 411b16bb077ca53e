// Exercise 22: a kernel that wastes nothing.
//
// One block of 64 threads, one query q of 32 values, and 64 keys of 32 values each: value x of key
// j is keys[32 * j + x], in global memory. Thread j is to find the score of key j, the sum over x
// of q[x] times value x of the key, and write it to scores[j].
//
// Have every value of the keys read from global memory once, neighbouring threads reading
// neighbouring values, and put into `shared`, which has room for 64 rows of 33. Wait for each other
// with __syncthreads(). Then no read or write of shared memory may take a warp more than one round.
#pragma once

#include "lessons/book/gpu.h"

using ringscope::lessons::Counted;

inline void find_scores(const float* q, Counted keys, Counted shared, float* scores) {
  const int j = static_cast<int>(threadIdx.x);
  float score = 0;
  for (int x = 0; x < 32; ++x)
    score += q[x] * keys[32 * j + x];  // right, but 32 threads read from 32 rows
  scores[j] = score;
}
