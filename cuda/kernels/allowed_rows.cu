#include "cuda/base/launch.h"
#include "cuda/kernels/allowed_rows.h"

namespace ringscope::cuda {
namespace {

constexpr int kThreads = 128;

unsigned blocks_for(int rows) { return static_cast<unsigned>((rows + kThreads - 1) / kThreads); }

__global__ void allowed_keys(Region region, int rows, RowInterval* table) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const Interval keys = region.allowed_rows(row);
  table[row] = {static_cast<std::int32_t>(keys.first), static_cast<std::int32_t>(keys.last)};
}

__global__ void allowed_queries(const RowInterval* allowed_keys, int rows_q, RowInterval* table,
                                int rows_k) {
  const int key = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (key < rows_k) table[key] = allowed_queries_of(allowed_keys, rows_q, key);
}

}  // namespace

void launch_allowed_keys(const Region& region, RowInterval* table, cudaStream_t stream) {
  const int rows = static_cast<int>(region.queries.size());
  launch(allowed_keys, {blocks_for(rows), kThreads}, stream, region, rows, table);
}

void launch_allowed_queries(const RowInterval* allowed_keys, int rows_q, RowInterval* table,
                            int rows_k, cudaStream_t stream) {
  launch(allowed_queries, {blocks_for(rows_k), kThreads}, stream, allowed_keys, rows_q, table,
         rows_k);
}

}  // namespace ringscope::cuda
