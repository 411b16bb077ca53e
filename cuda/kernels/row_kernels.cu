#include "cuda/kernels/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/buffer.h"
#include "cuda/base/device_memory.h"
#include "cuda/base/launch.h"
#include "cuda/kernels/row_state.h"
#include "cuda/ptx/registers.h"

namespace ringscope::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Each thread strides through the rows or values that one grid cannot hold.
unsigned blocks_for(Index count, int each) {
  return static_cast<unsigned>(min_of(ceil_div(count, each), 1 << 20));
}
__device__ Index first_index() { return static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ Index index_stride() { return static_cast<Index>(gridDim.x) * kThreads; }

__global__ void allowed_keys(Region region, int rows, RowInterval* table) {
  for (Index row = first_index(); row < rows; row += index_stride()) {
    const Interval keys = region.allowed_rows(row);
    table[row] = {static_cast<std::int32_t>(keys.first), static_cast<std::int32_t>(keys.last)};
  }
}

__global__ void allowed_queries(const RowInterval* allowed_keys, int rows_q, RowInterval* table,
                                int rows_k) {
  for (Index key = first_index(); key < rows_k; key += index_stride())
    table[key] = allowed_queries_of(allowed_keys, rows_q, static_cast<int>(key));
}

// Finish one row per warp, with lanes over head_dim.
__global__ void finish(ForwardStep step, Index rows) {
  const int lane = threadIdx.x % 32;
  for (Index row = first_index() / 32; row < rows; row += index_stride() / 32) {
    const CarriedRow state = carried_row(step, row);
    const int head = static_cast<int>(row / step.shape.rows_q % step.shape.heads);
    const EndedRow ended = ended_row(step, head, state, state.row_max, 0);
    const int width = step.shape.value_dim();
    float* const out = step.out + row * width;
    for (int x = lane; x < width; x += 32)
      out[x] = step.first ? 0.0f : stored_out(step, out[x], ended);
    __syncwarp();  // all lanes have read the state
    if (lane == 0) store_row(step, row, ended);
  }
}

template <class T>
__global__ void delta_of_rows(const T* dout, const float* out, float* delta, Index rows,
                              int value_dim) {
  const int lane = threadIdx.x % 32;
  for (Index row = first_index() / 32; row < rows; row += index_stride() / 32) {
    float sum = 0;
    for (int x = lane; x < value_dim; x += 32)
      sum += to_float(dout[row * value_dim + x]) * out[row * value_dim + x];
    sum = sum_over_lanes(sum);
    if (lane == 0) delta[row] = sum;
  }
}

// Merge one row per warp, with lanes over head_dim.
__global__ void merge(SoftmaxState into, SoftmaxState from, Index rows, int value_dim) {
  const int lane = threadIdx.x % 32;
  for (Index row = first_index() / 32; row < rows; row += index_stride() / 32) {
    const float new_max = fmaxf(into.row_max[row], from.row_max[row]);
    const double mine = sum_rescale_factor(into.row_max[row], new_max);
    const double theirs = sum_rescale_factor(from.row_max[row], new_max);
    for (Index x = row * value_dim + lane; x < (row + 1) * value_dim; x += 32)
      into.out_accum[x] = static_cast<float>(mine) * into.out_accum[x] +
                          static_cast<float>(theirs) * from.out_accum[x];
    __syncwarp();  // all lanes have read the state
    if (lane != 0) continue;
    into.row_sum[row] = mine * into.row_sum[row] + theirs * from.row_sum[row];
    into.row_max[row] = new_max;
  }
}

__global__ void add(float* into, const float* from, Index count) {
  for (Index i = first_index(); i < count; i += index_stride()) into[i] += from[i];
}

// Compare one row per warp.
template <class T>
__global__ void compare_values(const T* values, const T* others, Index count, Index row_length,
                               float least_scale, Comparison* of_warps) {
  const int lane = threadIdx.x % 32;
  Comparison mine;
  for (Index begin = first_index() / 32 * row_length; begin < count;
       begin += index_stride() / 32 * row_length) {
    const Index end = begin + row_length < count ? begin + row_length : count;
    float squares = 0;
    for (Index i = begin + lane; i < end; i += 32)
      squares += to_float(others[i]) * to_float(others[i]);
    squares = sum_over_lanes(squares);
    const float scale = fmaxf(least_scale, sqrtf(squares / static_cast<float>(end - begin)));
    for (Index i = begin + lane; i < end; i += 32) {
      const float value = to_float(values[i]), other = to_float(others[i]);
      const float share = fabsf(value - other) / (0x1p-7f * (fabsf(other) + 2 * scale));
      mine.add({double{other} * other, share < kInfinity ? share : kInfinity, value != other,
                value != value});
    }
  }
  mine.squares = sum_over_lanes(mine.squares);
  mine.worst = max_over_lanes(mine.worst);
  mine.different = sum_over_lanes(mine.different);
  mine.nans = sum_over_lanes(mine.nans);
  if (lane == 0) of_warps[first_index() / 32] = mine;
}

__global__ void read_clocks(ClockReading* to, int count) {
  const int m = ptx::multiprocessor();
  if (threadIdx.x == 0 && m < count) to[m] = {ptx::kernel_clocks(), ptx::kernel_time()};
}

__global__ void sample_rows(SampledRows sampled, const float* row_max, const double* row_sum,
                            RowSample* to) {
  const int i = threadIdx.x;
  if (i >= sampled.count) return;
  // A subscript unknown at compile time would put rows[] into local memory, so select by hand.
  const long long row = i == 0 ? sampled.rows[0] : i == 1 ? sampled.rows[1] : sampled.rows[2];
  to[i].row_max = row_max[row];
  to[i].row_sum = row_sum[row];
}

}  // namespace

void launch_allowed_keys(const Region& region, RowInterval* table, cudaStream_t stream) {
  const int rows = static_cast<int>(region.queries.size());
  launch(allowed_keys, {blocks_for(rows, kThreads), kThreads}, stream, region, rows, table);
}

void launch_allowed_queries(const RowInterval* allowed_keys, int rows_q, RowInterval* table,
                            int rows_k, cudaStream_t stream) {
  launch(allowed_queries, {blocks_for(rows_k, kThreads), kThreads}, stream, allowed_keys, rows_q,
         table, rows_k);
}

void launch_finish(const ForwardStep& step, cudaStream_t stream) {
  const Index rows = static_cast<Index>(step.shape.batch) * step.shape.heads * step.shape.rows_q;
  launch(finish, {blocks_for(rows, kWarps), kThreads}, stream, step, rows);
}

void launch_delta(const void* dout, DType dtype, const float* out, float* delta, Index rows,
                  int value_dim, cudaStream_t stream) {
  visit_dtype(dtype, [&]<class T>(T) {
    launch(delta_of_rows<T>, {blocks_for(rows, kWarps), kThreads}, stream,
           static_cast<const T*>(dout), out, delta, rows, value_dim);
  });
}

void launch_merge(const SoftmaxState& into, const SoftmaxState& from, Index rows, int value_dim,
                  cudaStream_t stream) {
  launch(merge, {blocks_for(rows, kWarps), kThreads}, stream, into, from, rows, value_dim);
}

void launch_add(float* into, const float* from, Index count, cudaStream_t stream) {
  launch(add, {blocks_for(count, kThreads), kThreads}, stream, into, from, count);
}

Comparison compare(const void* values, const void* others, DType dtype, Index count,
                   Index row_length, float least_scale) {
  const unsigned blocks = std::min(blocks_for(count, kThreads), 1024u);
  MemoryMeter meter(device_memory());
  Buffer<Comparison> of_warps(&meter, static_cast<Index>(blocks) * kWarps);
  visit_dtype(dtype, [&]<class T>(T) {
    launch(compare_values<T>, {blocks, kThreads}, nullptr, static_cast<const T*>(values),
           static_cast<const T*>(others), count, row_length, least_scale, of_warps.data());
  });
  std::vector<Comparison> parts(static_cast<std::size_t>(of_warps.size()));
  device_memory().copy_out(parts.data(), of_warps.data(), of_warps.bytes());
  Comparison all;
  for (const Comparison& part : parts) all.add(part);
  return all;
}

void launch_read_clocks(ClockReading* to, int count, cudaStream_t stream) {
  launch(read_clocks, {static_cast<unsigned>(count), 32}, stream, to, count);
}

void launch_sample_rows(const SampledRows& rows, const float* row_max, const double* row_sum,
                        RowSample* to, cudaStream_t stream) {
  if (rows.count == 0) return;
  launch(sample_rows, {1, 32}, stream, rows, row_max, row_sum, to);
}

}  // namespace ringscope::cuda
