// The backward tile loop. It recomputes P from the saved row statistics, so the forward pass keeps
// nothing of size rows x keys (S1, part two, 8.1):
//
//   P = exp(scale Q K^T - m) / l      dP = dO V^T      dS = P * (dP - delta)
//   dV += P^T dO      dK += dS^T (scale Q)      dQ += dS K, times scale at the end
//
// m and l must be the final ones over all keys of all blocks, because a block's own give a wrong
// dQ. lse = m + log(l) would do as well, but in f32 its last digit is worth several of P's.

#include "core/attention/blockwise.h"
#include "core/attention/online_softmax.h"
#include "core/attention/tile_product.h"
#include "core/attention/tiles.h"

namespace ringscope {

void begin_backward(const AttentionParams& params, const QueryBlock& q,
                    const BackwardState& state) {
  const Index d = params.head_dim;
  if (state.out != nullptr)
    visit_dtype(params.dtype, [&]<class Stored>(Stored) {
      const Stored* dout = static_cast<const Stored*>(q.dout);
      for (Index i = 0; i < row_values(params, q.rows); ++i) {
        double sum = 0;  // f64, rounded once, because dP - delta is often a small difference
        for (Index x = 0; x < d; ++x)
          sum += static_cast<double>(to_float(dout[i * d + x])) * state.out[i * d + x];
        state.delta[i] = static_cast<float>(sum);
      }
    });
  for (Index i = 0; i < query_values(params, q.rows); ++i) state.dq[i] = 0;
}

namespace {

// Turn the scores of one tile row into P, and its dP into dS.
void softmax_backward_row(float* scores, float* dscores, Interval columns, float row_max,
                          double row_sum, float delta) {
  // With no keys, or only -inf scores, any finite unit gives P = exp(-inf) = 0 instead of NaN.
  const Vector unit = broadcast(row_max == kMinusInfinity<float> ? 0.0f : row_max);
  const Vector weight = broadcast(row_sum == 0 ? 0.0f : static_cast<float>(1 / row_sum));
  const Vector delta_lanes = broadcast(delta);
  for (Index j = columns.first; j < columns.last; j += kVectorWidth) {
    const Vector p = exp_of(load(scores + j) - unit) * weight;
    store(scores + j, p);
    store(dscores + j, p * (load(dscores + j) - delta_lanes));
  }
}

}  // namespace

BlockStats attend_block_backward(const AttentionParams& params, const Region& region,
                                 const QueryBlock& q, const KvBlock& block,
                                 const BackwardState& state, const KvGradient& gradient,
                                 BlockwiseScratch& scratch) {
  const Index d = params.head_dim, stride = padded(d);
  float* const scores = scratch.scores.data();
  float* const dscores = scratch.dscores.data();
  float* const keys_f32 = scratch.values.data();
  BlockStats stats;
  for (Index kv_head = 0; kv_head < params.batch * params.num_heads_kv; ++kv_head) {
    const void* k = offset_by(block.data, params.dtype, kv_head * block.rows * d);
    const void* v = offset_by(k, params.dtype, kv_values(params, block.rows));
    for (Index key = 0; key < block.rows; key += kTileKeys) {
      const Interval keys{key, min_of(key + kTileKeys, block.rows)};
      if (scratch.pulse != nullptr) scratch.pulse->tick();  // even if all its tiles are empty
      bool loaded = false, keys_finite = true;
      scratch.dkeys.fill(0);
      scratch.dvalues.fill(0);
      for (Index row = 0; row < q.rows; row += kTileRows) {
        const Interval rows{row, min_of(row + kTileRows, q.rows)};
        const TileMask mask(region, rows, keys);
        const Interval columns = mask.vector_columns();
        for (Index g = 0; g < params.group_size(); ++g) {
          count_tile(mask, stats);
          if (mask.tile_class == TileClass::empty) continue;
          if (scratch.pulse != nullptr) scratch.pulse->tick();
          if (!loaded) {
            load_rows_transposed(params.dtype, k, keys, d, scratch.keys_transposed.data());
            load_rows_transposed(params.dtype, v, keys, d, scratch.values_transposed.data());
            load_rows(params.dtype, k, keys, d, 1.0, keys_f32);
            keys_finite = all_finite(keys_f32, keys.size() * stride);
            loaded = true;
          }
          const Index head = kv_head * params.group_size() + g;
          const Index head_values = head * q.rows * d;
          load_rows(params.dtype, offset_by(q.q, params.dtype, head_values), rows, d,
                    params.softmax_scale, scratch.queries.data());
          load_rows(params.dtype, offset_by(q.dout, params.dtype, head_values), rows, d, 1.0,
                    scratch.dout.data());
          tile_product<Store::overwrite>(
              {scratch.queries.data(), stride, 1}, scratch.keys_transposed.data() + columns.first,
              kTileKeys, scores + columns.first, kTileKeys, rows.size(), columns.size(), d);
          tile_product<Store::overwrite>(
              {scratch.dout.data(), stride, 1}, scratch.values_transposed.data() + columns.first,
              kTileKeys, dscores + columns.first, kTileKeys, rows.size(), columns.size(), d);
          const Index first_row = head * q.rows + rows.first;
          for (Index i = 0; i < rows.size(); ++i) {
            softmax_backward_row(scores + i * kTileKeys, dscores + i * kTileKeys, columns,
                                 state.row_max[first_row + i], state.row_sum[first_row + i],
                                 state.delta[first_row + i]);
            if (!mask.has_holes()) continue;
            fill_outside(scores + i * kTileKeys, mask, i, 0.0f);
            fill_outside(dscores + i * kTileKeys, mask, i, 0.0f);
          }
          const Interval seen = mask.columns;
          float* const p = scores + seen.first;
          float* const ds = dscores + seen.first;
          float* const dvalues = scratch.dvalues.data() + seen.first * stride;
          float* const dkeys = scratch.dkeys.data() + seen.first * stride;
          float* const dq = state.dq + first_row * d;
          const bool full = mask.tile_class == TileClass::full;
          const NonFiniteTakenOut from_dout(
              scratch.dout.data(), rows.size(), d,
              full || all_finite(scratch.dout.data(), rows.size() * stride));
          const NonFiniteTakenOut from_queries(
              scratch.queries.data(), rows.size(), d,
              full || all_finite(scratch.queries.data(), rows.size() * stride));
          const NonFiniteTakenOut from_keys(keys_f32 + seen.first * stride, seen.size(), d,
                                            full || keys_finite);
          tile_product<Store::accumulate>({p, 1, kTileKeys}, scratch.dout.data(), stride, dvalues,
                                          stride, seen.size(), d, rows.size());
          tile_product<Store::accumulate>({ds, 1, kTileKeys}, scratch.queries.data(), stride, dkeys,
                                          stride, seen.size(), d, rows.size());
          tile_product<Store::accumulate>({ds, kTileKeys, 1}, keys_f32 + seen.first * stride,
                                          stride, dq, d, rows.size(), d, seen.size());
          const auto for_keys_of = [&](Index i, auto&& add) {
            for (Index j = mask.allowed[i].first; j < mask.allowed[i].last; ++j)
              if (mask.allows(i, j)) add(j - seen.first);
          };
          from_dout.for_each([&](Index i, Index x, float value) {
            for_keys_of(i,
                        [&](Index j) { dvalues[j * stride + x] += p[i * kTileKeys + j] * value; });
          });
          from_queries.for_each([&](Index i, Index x, float value) {
            for_keys_of(i,
                        [&](Index j) { dkeys[j * stride + x] += ds[i * kTileKeys + j] * value; });
          });
          from_keys.for_each([&](Index j, Index x, float value) {
            for (Index i = 0; i < rows.size(); ++i)
              if (mask.allows(i, seen.first + j)) dq[i * d + x] += ds[i * kTileKeys + j] * value;
          });
        }
      }
      float* const dk = gradient.data + (kv_head * block.rows + keys.first) * d;
      float* const dv = dk + kv_values(params, block.rows);
      for (Index j = 0; j < keys.size(); ++j)
        for (Index x = 0; x < d; ++x) {
          dk[j * d + x] = scratch.dkeys[j * stride + x];
          dv[j * d + x] = scratch.dvalues[j * stride + x];
        }
    }
  }
  stats.pairs /= params.batch * params.num_heads;
  return stats;
}

void finish_backward(const AttentionParams& params, const QueryBlock& q,
                     const BackwardState& state) {
  for (Index i = 0; i < query_values(params, q.rows); ++i)
    state.dq[i] = static_cast<float>(state.dq[i] * params.softmax_scale);
}

}  // namespace ringscope
