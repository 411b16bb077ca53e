// Step 01: attention as its formula says. One kernel writes S = softmax_scale Q K^T to global
// memory, per head. A second turns its rows into P = softmax(S), and a third computes O = P V.
//
//   S[i, j]   row i's score for key j; -inf where the mask forbids the pair
//   m, l      a row's largest score and its sum of exp(S - m)
//
// It is slow for two reasons, which the next steps remove one by one. S goes through memory four
// times, written and read as S, then as P (4 GB each time for one head at 32k x 32k; Q, K and V are
// 48 MB together at head_dim 128). Each product reads both factors from global memory, value by
// value.
//
// It is no step of a ring: softmax divides by l at once, so no state remains to carry on.
#include "cuda/base/launch.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/row_state.h"

namespace ringscope::cuda {
namespace {

constexpr int kSide = 16;  // of a square of scores, one per thread
constexpr int kWarps = 4;  // rows of S that a block takes through softmax

// One head of a step: Q [rows_q, head_dim], K [rows_k, head_dim], V and O likewise, S [rows_q, rows_k].
struct Head {
  const float *q, *k, *v;
  float* scores;
  float* out;
  int number;                // of the query head
  std::int64_t first_query;  // row_index() of row 0
};

// Compute the scores, one per thread.
__global__ void scores(ForwardStep step, Head head) {
  const StepShape& shape = step.shape;
  const int d = shape.head_dim;
  const int row = blockIdx.y * kSide + threadIdx.x / kSide;
  const int key = blockIdx.x * kSide + threadIdx.x % kSide;
  if (row < shape.rows_q && key < shape.rows_k) {
    float score = kNoKeys;
    if (overlap(step.allowed_keys[row], key, key + 1) == 1) {
      const float* const q = head.q + static_cast<std::int64_t>(row) * d;
      const float* const k = head.k + static_cast<std::int64_t>(key) * d;
      float dot = 0;
      for (int x = 0; x < d; ++x) dot = fmaf(q[x], k[x], dot);
      score = dot * step.softmax_scale;
    }
    head.scores[static_cast<std::int64_t>(row) * shape.rows_k + key] = score;
  }
  if (blockIdx.x == 0 && threadIdx.x < 32)
    count_visits(step.counters, RowTile::at(blockIdx.y, kSide, shape.rows_q, step.allowed_keys),
                 head.first_query == 0 ? step.allowed_keys : nullptr, kSide, shape.rows_k);
}

// Turn S into P and write m, l and lse, one row per warp.
__global__ void softmax(ForwardStep step, Head head) {
  const int rows_k = step.shape.rows_k;
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * kWarps + threadIdx.x / 32;
  if (row >= step.shape.rows_q) return;
  float* const s = head.scores + static_cast<std::int64_t>(row) * rows_k;

  const float sink = sink_of(step, head.number);  // a key without a value
  float row_max = sink;
  for (int key = lane; key < rows_k; key += 32) row_max = fmaxf(row_max, s[key]);
  row_max = max_over_lanes(row_max);
  float row_sum = lane == 0 ? expf(sink - exponent_unit(row_max)) : 0.0f;
  for (int key = lane; key < rows_k; key += 32) {
    s[key] = expf(s[key] - exponent_unit(row_max));
    row_sum += s[key];
  }
  row_sum = sum_over_lanes(row_sum);
  if (lane == 0) store_row(step, head.first_query + row, {row_max, row_sum});
}

// Compute O, one value per thread.
__global__ void weighted_values(ForwardStep step, Head head) {
  const int d = step.shape.value_dim();
  const int x = threadIdx.x % kSide + blockIdx.y * kSide;
  const int row = threadIdx.x / kSide + blockIdx.x * kSide;
  if (row >= step.shape.rows_q || x >= d) return;
  const float* const p = head.scores + static_cast<std::int64_t>(row) * step.shape.rows_k;
  const RowInterval allowed = step.allowed_keys[row];
  float out = 0;
  for (int key = allowed.first; key < allowed.last; ++key)
    out = fmaf(p[key], head.v[static_cast<std::int64_t>(key) * d + x], out);
  head.out[static_cast<std::int64_t>(row) * d + x] =
      stored_out(step, out, {0, step.row_sum[head.first_query + row]});
}

// Memory for S during one launch.
class Scores {
 public:
  Scores(const StepShape& shape, cudaStream_t stream) : stream_(stream) {
    const auto values = static_cast<std::size_t>(shape.rows_q) * shape.rows_k;
    if (values > 0) RINGSCOPE_CUDA(cudaMalloc(&data_, values * sizeof(float)));
  }
  Scores(const Scores&) = delete;
  // Wait for the kernels that use it, then free it.
  ~Scores() {
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaFree(data_));
  }
  float* data() const { return data_; }

 private:
  cudaStream_t stream_;
  float* data_ = nullptr;
};

constexpr TileShape kTiles[] = {{kSide, kSide}};

// Unlike the launch functions of other kernels, return only when the kernels have ended.
void launch_step(const ForwardStep& step, DType, int, cudaStream_t stream) {
  const StepShape& shape = step.shape;
  if (shape.rows_q == 0) return;
  const Scores s(shape, stream);
  const unsigned squares_q = tiles_for(shape.rows_q, kSide);
  for (int batch = 0; batch < shape.batch; ++batch)
    for (int head = 0; head < shape.heads; ++head) {
      const std::int64_t query = row_index(shape, batch, head, 0);
      const std::int64_t key = key_index(shape, batch, head, 0);
      const int d = shape.head_dim, d_v = shape.value_dim();
      const Head one{static_cast<const float*>(step.q) + query * d,
                     static_cast<const float*>(step.k) + key * d,
                     static_cast<const float*>(step.v) + key * d_v,
                     s.data(),
                     step.out + query * d_v,
                     head,
                     query};
      const unsigned squares_k = tiles_for(shape.rows_k, kSide);
      launch(scores, {{squares_k, squares_q}, kSide * kSide}, stream, step, one);
      launch(softmax, {static_cast<unsigned>(tiles_for(shape.rows_q, kWarps)), 32 * kWarps}, stream,
             step, one);
      launch(weighted_values,
             {{squares_q, static_cast<unsigned>(tiles_for(d_v, kSide))}, kSide * kSide}, stream,
             step, one);
    }
}

}  // namespace

constinit const Kernel naive_kernel{.number = 1,
                                    .name = "naive",
                                    .idea = "three kernels, and S in global memory between them",
                                    .carries_state = false,
                                    .tiles = kTiles,
                                    .launch_forward = launch_step};

}  // namespace ringscope::cuda
