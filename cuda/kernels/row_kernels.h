// The small kernels around the steps. They fill the tables of intervals that steps read
// (ring_step.h), end a forward pass whose last step had nothing to attend, begin and end a backward
// pass, and copy what a recording shows. All enqueue on `stream` and throw CudaError.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/attention/views.h"
#include "core/base/dtype.h"
#include "core/base/math.h"
#include "core/problem/region.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// Set table[i] to the local key rows that local query row i may attend, for all of region.queries.
// The mask's document_ends, if any, must be device memory.
void launch_allowed_keys(const Region& region, RowInterval* table, cudaStream_t stream);

// Set table[j] to the query rows that may attend key row j: the same pairs, seen from the key rows
// [0, rows_k).
void launch_allowed_queries(const RowInterval* allowed_keys, int rows_q, RowInterval* table,
                            int rows_k, cudaStream_t stream);

// Find the queries that may attend `key`. Neither end of the intervals ever decreases, so the
// queries with last > key are all rows from some row on, and those with first <= key all rows up to
// some row. The result is the rows in both sets. A row without keys is never in both.
__host__ __device__ constexpr RowInterval allowed_queries_of(const RowInterval* allowed_keys,
                                                             int rows_q, int key) {
  int first = 0, last = rows_q;  // first query whose interval ends after key
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (allowed_keys[middle].last <= key)
      first = middle + 1;
    else
      last = middle;
  }
  const int begin = first;
  last = rows_q;  // first query from there on whose interval begins after key
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (allowed_keys[middle].first <= key)
      first = middle + 1;
    else
      last = middle;
  }
  return {begin, first};
}

// Do what a step does after its keys, without any keys. With `last` set out to out / row_sum and
// write lse. With `first` no keys were ever seen, so the state is not read: row_max = -inf, row_sum
// = 0, out = 0, and with `last`, too, lse = -inf, or that of the sink alone.
void launch_finish(const ForwardStep& step, cudaStream_t stream);

// Set delta[row] to the sum of dout[row] * out[row], for `rows` rows of value_dim values. dout is in
// `dtype`, out in f32 as the forward pass left it.
void launch_delta(const void* dout, DType dtype, const float* out, float* delta, Index rows,
                  int value_dim, cudaStream_t stream);

// Merge the states of other keys into `into`, for `rows` rows of value_dim values (core/attention/
// online_softmax.h, merge): the factors are computed in f64, the outputs in f32.
void launch_merge(const SoftmaxState& into, const SoftmaxState& from, Index rows, int value_dim,
                  cudaStream_t stream);

// Add from[i] to into[i], for i < count.
void launch_add(float* into, const float* from, Index count, cudaStream_t stream);

// How values differ from others, and what they are.
struct Comparison {
  double squares = 0;  // sum of those of the others
  // The largest difference in units of 2^-7 (|other| + 2 scale), infinite for NaN, where scale is the
  // row's root mean square or the least scale. Two kernels round P and dS to bf16 by 2^-8 at most and
  // by 0.0017 on average, so sums of many of them differ by 0.0024 of their row's root mean square, and
  // the largest of 10^8 such differences is six times that: 2^-6.
  float worst = 0;
  long long different = 0, nans = 0;

  __host__ __device__ void add(const Comparison& more) {
    squares += more.squares;
    worst = fmaxf(worst, more.worst);
    different += more.different;
    nans += more.nans;
  }
};

// Compare values[i] with others[i], both in `dtype`, for i < count, in rows of `row_length`. Waits for the
// result.
Comparison compare(const void* values, const void* others, DType dtype, Index count,
                   Index row_length, float least_scale);

// What a multiprocessor's counter of clocks says, and when, in nanoseconds.
struct ClockReading {
  std::uint64_t clocks, ns;
};

// Set to[m] for the multiprocessors m < count that a grid of `count` blocks comes to. `to` may be pinned
// host memory.
void launch_read_clocks(ClockReading* to, int count, cudaStream_t stream);

// Rows on the device: indices into [batch, heads, rows], so they are rows of batch entry 0, head 0.
struct SampledRows {
  long long rows[3];
  int count;
};

struct RowSample {
  float row_max;
  double row_sum;
};

// Set to[i] to the state of row rows[i], for i < count. `to` may be pinned host memory; the few
// bytes then cross the bus without a separate copy.
void launch_sample_rows(const SampledRows& rows, const float* row_max, const double* row_sum,
                        RowSample* to, cudaStream_t stream);

}  // namespace ringscope::cuda
