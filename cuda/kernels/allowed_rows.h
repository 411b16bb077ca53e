// Fills on the device the tables of intervals that the kernels read (ring_step.h).
#pragma once

#include <cuda_runtime.h>

#include "core/problem/region.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// Set table[i] to the local key rows that local query row i may attend, for all of region.queries.
// The mask's document_ends, if any, must be device memory. Throws CudaError.
void launch_allowed_keys(const Region& region, RowInterval* table, cudaStream_t stream);

// Set table[j] to the query rows that may attend key row j: the same pairs, seen from the key rows
// [0, rows_k). Throws CudaError.
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

}  // namespace ringscope::cuda
