// The tables of intervals that the kernels go by (ring_step.h), filled on the device.
#pragma once

#include <cuda_runtime.h>

#include "core/problem/region.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// table[i] = the local key rows that local query row i may attend, for all of region.queries. The
// mask's document_ends, if any, is device memory. Throws CudaError.
void launch_allowed_keys(const Region& region, RowInterval* table, cudaStream_t stream);

// The same pairs seen from the keys: table[j] = the query rows that may attend key row j, for j in
// [0, rows_k). Throws CudaError.
void launch_allowed_queries(const RowInterval* allowed_keys, int rows_q, RowInterval* table,
                            int rows_k, cudaStream_t stream);

// The search behind it. Because both ends of the intervals never decrease, the queries with
// last > key are the rows from some row on, and those with first <= key the rows up to some row;
// the queries that may attend the key are those that are both. A row without keys is never both.
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
