// Step 02: online softmax. S is never stored. A warp owns a query row and walks over the keys that
// the row may attend, 32 at a time, keeping only
//
//   m = row_max    largest score so far
//   l = row_sum    sum of exp(score - m)
//   O = out        sum of exp(score - m) V, unnormalised
//
// When a group of keys raises m, l and O are rescaled by exp(m_old - m_new); that alone makes the
// pass "online". Because only (m, l, O) is kept, a pass may stop after any key and go on later. So
// this is the first kernel that computes one step of a ring.
//
// Compared with 01, memory is O(rows) instead of O(rows^2), without the traffic of writing S and P
// once and reading them twice. It is still slow because every row rereads all of K and V, from L2
// at best.
//
// For the scores a lane is a key and computes its dot product. For O a lane is a column, and P goes
// round by shuffle. A row reads K and V of its own keys only, so a NaN elsewhere stays out.
#include "cuda/base/launch.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/row_state.h"

namespace ringscope::cuda {
namespace {

constexpr int kWarps = 4;  // independent rows per block
constexpr int kKeys = 32;

template <int kDim>  // value_dim() is at most that
__global__ __launch_bounds__(32 * kWarps) void online_softmax(ForwardStep step) {
  constexpr int kColumns = kDim / 32;  // of O, in each lane: lane, lane + 32, ...
  const StepShape& shape = step.shape;
  const int d = shape.head_dim, d_v = shape.value_dim();
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * kWarps + threadIdx.x / 32;
  const int head = blockIdx.y, batch = blockIdx.z;
  if (row >= shape.rows_q) return;  // a whole warp, and no barrier follows

  const std::int64_t query = row_index(shape, batch, head, row);
  const std::int64_t first_key = key_index(shape, batch, head, 0);
  const float* const q = static_cast<const float*>(step.q) + query * d;
  const float* const k = static_cast<const float*>(step.k) + first_key * d;
  const float* const v = static_cast<const float*>(step.v) + first_key * d_v;
  float* const stored = step.out + query * d_v;

  const CarriedRow before = carried_row(step, query);
  float row_max = before.row_max;
  float row_sum = 0;  // this step's, of this lane's keys
  float out[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int x = lane + 32 * c;
    out[c] = step.first || x >= d_v ? 0.0f : stored[x];
  }

  const RowTile tile = RowTile::at(row, 1, shape.rows_q, step.allowed_keys);
  const RowInterval allowed = tile.needed;
  for (int t = tile.first_visitor(kKeys); t < tile.last_visitor(kKeys); ++t) {
    const int key0 = t * kKeys;
    // Compute S, one key per lane.
    const int key = key0 + lane;
    float score = kNoKeys;
    if (allowed.first <= key && key < allowed.last) {
      float dot = 0;
      for (int x = 0; x < d; ++x) dot = fmaf(q[x], k[static_cast<std::int64_t>(key) * d + x], dot);
      score = dot * step.softmax_scale;
    }

    const float new_max = fmaxf(row_max, max_over_lanes(score));
    const float factor = rescale_factor(row_max, new_max);
    const float p = expf(score - exponent_unit(new_max));
    row_max = new_max;
    row_sum = row_sum * factor + p;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) out[c] *= factor;

    // Add P V to O, one column per lane.
    const int begin = max(key0, allowed.first), end = min(key0 + kKeys, allowed.last);
    for (int j = begin; j < end; ++j) {
      const float p_j = __shfl_sync(~0u, p, j - key0);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int x = lane + 32 * c;
        if (x < d_v) out[c] = fmaf(p_j, v[static_cast<std::int64_t>(j) * d_v + x], out[c]);
      }
    }
  }

  const EndedRow ended = ended_row(step, head, before, row_max, sum_over_lanes(row_sum));
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int x = lane + 32 * c;
    if (x < d_v) stored[x] = stored_out(step, out[c], ended);
  }
  if (lane == 0) store_row(step, query, ended);
  count_visits(step.counters, tile, head + batch == 0 ? step.allowed_keys : nullptr, kKeys,
               shape.rows_k);
}

constexpr TileShape kTiles[] = {{1, kKeys}};

void launch_step(const ForwardStep& step, DType, int, cudaStream_t stream) {
  const StepShape& shape = step.shape;
  const dim3 grid(tiles_for(shape.rows_q, kWarps), shape.heads, shape.batch);
  visit_head_dim(shape.value_dim(), [&](auto dim) {
    launch(online_softmax<dim()>, {grid, 32 * kWarps}, stream, step);
  });
}

}  // namespace

constinit const Kernel online_softmax_kernel{
    .number = 2,
    .name = "online_softmax",
    .idea = "a warp a row, S never stored: m, l and O go on from key to key and step to step",
    .tiles = kTiles,
    .launch_forward = launch_step};

}  // namespace ringscope::cuda
