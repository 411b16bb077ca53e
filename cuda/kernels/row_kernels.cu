#include "cuda/kernels/row_kernels.h"

#include "cuda/base/launch.h"
#include "cuda/kernels/row_state.h"

namespace ringscope::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Each thread strides through the rows or values that one grid cannot hold.
unsigned blocks_for(Index count, int each) {
  return static_cast<unsigned>(min_of(ceil_div(count, each), 1 << 20));
}
__device__ Index first_index() { return static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ Index index_stride() { return static_cast<Index>(gridDim.x) * kThreads; }

// Finish one row per warp, with lanes over head_dim.
__global__ void finish(ForwardStep step, Index rows) {
  const int lane = threadIdx.x % 32;
  for (Index row = first_index() / 32; row < rows; row += index_stride() / 32) {
    const CarriedRow state = carried_row(step, row);
    float* const out = step.out + row * step.shape.head_dim;
    for (int x = lane; x < step.shape.head_dim; x += 32)
      out[x] = stored_out(step, out[x], state.row_sum);
    __syncwarp();  // all lanes have read the state
    if (lane == 0) store_row(step, row, state.row_max, state.row_sum);
  }
}

template <class T>
__global__ void delta_of_rows(const T* dout, const float* out, float* delta, Index rows,
                              int head_dim) {
  const int lane = threadIdx.x % 32;
  for (Index row = first_index() / 32; row < rows; row += index_stride() / 32) {
    float sum = 0;
    for (int x = lane; x < head_dim; x += 32)
      sum += to_float(dout[row * head_dim + x]) * out[row * head_dim + x];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (lane == 0) delta[row] = sum;
  }
}

__global__ void scale(float* values, Index count, float factor) {
  for (Index i = first_index(); i < count; i += index_stride()) values[i] *= factor;
}

__global__ void add(float* into, const float* from, Index count) {
  for (Index i = first_index(); i < count; i += index_stride()) into[i] += from[i];
}

}  // namespace

void launch_finish(const ForwardStep& step, cudaStream_t stream) {
  ForwardStep last = step;
  last.last = true;
  const Index rows = static_cast<Index>(step.shape.batch) * step.shape.heads * step.shape.rows_q;
  launch(finish, {blocks_for(rows, kWarps), kThreads}, stream, last, rows);
}

void launch_delta(const void* dout, DType dtype, const float* out, float* delta, Index rows,
                  int head_dim, cudaStream_t stream) {
  visit_dtype(dtype, [&]<class T>(T) {
    launch(delta_of_rows<T>, {blocks_for(rows, kWarps), kThreads}, stream,
           static_cast<const T*>(dout), out, delta, rows, head_dim);
  });
}

void launch_scale(float* values, Index count, float factor, cudaStream_t stream) {
  launch(scale, {blocks_for(count, kThreads), kThreads}, stream, values, count, factor);
}

void launch_add(float* into, const float* from, Index count, cudaStream_t stream) {
  launch(add, {blocks_for(count, kThreads), kThreads}, stream, into, from, count);
}

}  // namespace ringscope::cuda
