// The forward tile loop: S = scale Q K^T, online softmax, out_accum += P V, one tile after another.
// Keys are the outer loop, so a tile of K and V is converted to f32 (and K transposed) once for all
// query rows and all query heads that share it.

#include <algorithm>
#include <cmath>

#include "core/attention/blockwise.h"
#include "core/attention/large_values.h"
#include "core/attention/online_softmax.h"
#include "core/attention/tile_product.h"
#include "core/attention/tiles.h"

namespace ringscope {

namespace {

// Return the values in a row of BlockwiseScratch::values, which holds keys in the backward pass.
Index width_of_values(const AttentionShape& shape, bool backward) {
  return padded(backward ? max_of(shape.head_dim, shape.value_dim()) : shape.value_dim());
}

}  // namespace

BlockwiseScratch::BlockwiseScratch(MemoryMeter* meter, const AttentionShape& shape, bool backward)
    : queries(meter, kTileRows * padded(shape.head_dim)),
      scores(meter, kTileRows * kTileKeys),
      keys_transposed(meter, shape.head_dim * kTransposedStride),
      values(meter, kTileKeys * width_of_values(shape, backward)) {
  if (!backward) return;
  dout = Buffer<float>(meter, kTileRows * padded(shape.value_dim()));
  dscores = Buffer<float>(meter, kTileRows * kTileKeys);
  values_transposed = Buffer<float>(meter, shape.value_dim() * kTransposedStride);
  dkeys = Buffer<float>(meter, kTileKeys * padded(shape.head_dim));
  dvalues = Buffer<float>(meter, kTileKeys * padded(shape.value_dim()));
}

Index BlockwiseScratch::bytes(const AttentionShape& shape, bool backward) {
  const Index d = shape.head_dim, v = shape.value_dim();
  const Index forward = kTileRows * (padded(d) + kTileKeys) + kTransposedStride * d +
                        kTileKeys * width_of_values(shape, backward);
  const Index more = kTileRows * (padded(v) + kTileKeys) + kTransposedStride * v +
                     kTileKeys * (padded(d) + padded(v));
  return 4 * (backward ? forward + more : forward);
}

void begin_attention(const AttentionParams& params, const QueryBlock& q,
                     const SoftmaxState& state) {
  for (Index i = 0; i < row_values(params, q.rows); ++i) {
    state.row_max[i] = kMinusInfinity<float>;
    state.row_sum[i] = 0;
  }
  for (Index i = 0; i < out_values(params, q.rows); ++i) state.out_accum[i] = 0;
}

namespace {

// Process one row of a tile: replace scores [columns) by exp(score - row_max), update row_max and
// row_sum, and rescale `out` to the new row_max. Scores that are not allowed must be -inf. With
// `amx_words`, write there what split_row() makes of the weights instead.
template <bool kForAmx>
void softmax_row(float* scores, Interval columns, float& row_max, double& row_sum, float* out,
                 Index head_dim, float* amx_words) {
  Vector largest = broadcast(row_max);
  for (Index j = columns.first; j < columns.last; j += kVectorWidth)
    largest = max_of(largest, load(scores + j));
  const float new_max = max_of_lanes(largest);
  const double factor = rescale_factor<double>(row_max, new_max);
  if (factor != 1.0)
    for (Index x = 0; x < head_dim; ++x) out[x] *= static_cast<float>(factor);
  // If all scores so far are -inf, any finite unit gives exp(-inf) = 0 instead of NaN.
  const Vector unit = broadcast(new_max == kMinusInfinity<float> ? 0.0f : new_max);
  Vector sum{};
  if constexpr (kForAmx)
    for (Index j = columns.last - kAmxInner; j >= columns.first; j -= kAmxInner) {
      const Vector p = exp_of(load(scores + j) - unit);
      const Vector next = exp_of(load(scores + j + kVectorWidth) - unit);
      sum += p + next;
      split_pair(p * (1 / kAmxUnit), next * (1 / kAmxUnit), amx_words + words_of_weights(j),
                 kVectorWidth);
    }
  else
    for (Index j = columns.first; j < columns.last; j += kVectorWidth) {
      const Vector p = exp_of(load(scores + j) - unit);
      store(scores + j, p);
      sum += p;
    }
  row_sum = row_sum * factor + sum_of_lanes(sum);
  row_max = new_max;
}

// Do the same in a row that is lowered or becomes so (large_values.h), by weights of at most `unit`.
[[gnu::noinline]] void softmax_lowered_row(float* scores, Interval columns, double unit,
                                           float& row_max, double& row_sum, float* out,
                                           Index head_dim) {
  if (is_lowered(row_sum))
    row_sum /= unit;
  else
    for (Index x = 0; x < head_dim; ++x) out[x] *= static_cast<float>(unit);
  softmax_row<false>(scores, columns, row_max, row_sum, out, head_dim, nullptr);
  for (Index j = columns.first; j < columns.last; ++j) scores[j] *= static_cast<float>(unit);
  row_sum *= unit;
}

}  // namespace

BlockStats attend_block(const AttentionParams& params, const Region& region, const QueryBlock& q,
                        const KvBlock& block, const SoftmaxState& state,
                        BlockwiseScratch& scratch) {
  const Index d = params.head_dim, d_v = params.value_dim(), stride = padded(d_v);
  float* const scores = scratch.scores.data();
  float* const product = scratch.values.data() + kTileKeys / 2 * stride;
  const float limit_of_keys = amx_limit_of_keys(params, q);
  const bool may_use = limit_of_keys > 0;
  const AmxRegisters registers(may_use);
  const Index tile_rows = may_use ? kAmxTileRows : kTileRows;
  BlockStats stats;
  for (Index kv_head = 0; kv_head < params.batch * params.num_heads_kv; ++kv_head) {
    const void* k = offset_by(block.data, params.dtype, kv_head * block.rows * d);
    const void* v = offset_by(block.data, params.dtype,
                              kv_values(params, block.rows) + kv_head * block.rows * d_v);
    for (Index key = 0; key < block.rows; key += kTileKeys) {
      const Interval keys{key, min_of(key + kTileKeys, block.rows)};
      if (scratch.pulse != nullptr) scratch.pulse->tick();  // even if all its tiles are empty
      bool loaded = false, by_amx = false;
      SeenValues values_seen;
      AmxOperand amx_keys{}, amx_values{};
      for (Index row = 0; row < q.rows; row += tile_rows) {
        const Interval rows{row, min_of(row + tile_rows, q.rows)};
        const TileMask mask(region, rows, keys, column_step(may_use));
        const Interval columns = mask.vector_columns();
        for (Index g = 0; g < params.group_size(); ++g) {
          count_tile(mask, stats);
          if (mask.tile_class == TileClass::empty) continue;
          if (scratch.pulse != nullptr) scratch.pulse->tick();
          if (!loaded) {
            const bf16* const k_rows = static_cast<const bf16*>(k) + keys.first * d;
            const bf16* const v_rows = static_cast<const bf16*>(v) + keys.first * d_v;
            by_amx = may_use_amx(k_rows, keys.size() * d, v_rows, keys.size() * d_v, limit_of_keys);
            if (by_amx) {
              amx_keys = columns_as_right(k_rows, keys.size(), d, scratch.keys_transposed.data());
              amx_values = rows_as_right(v_rows, keys.size(), d_v, scratch.values.data());
            } else {
              load_rows_transposed(params.dtype, k, keys, d, scratch.keys_transposed.data());
              load_rows(params.dtype, v, keys, d_v, 1.0, scratch.values.data());
              values_seen = seen_in(scratch.values.data(), keys.size() * stride);
            }
            loaded = true;
          }
          // Like kv_head, `head` counts through the batch, so this is b * num_heads + h.
          const Index head = kv_head * params.group_size() + g;
          const void* const queries = offset_by(q.q, params.dtype, head * q.rows * d);
          const Index first_row = head * q.rows + rows.first;
          if (by_amx) {
            amx_product(rows_as_left(static_cast<const bf16*>(q.q) + first_row * d, rows.size(), d,
                                     scratch.queries.data()),
                        amx_keys.from_block(columns.first), Store::overwrite,
                        scores + columns.first, kTileKeys, rows.size(), columns.size(), d);
            scale_scores(scores, rows.size(), columns, params.softmax_scale);
          } else {
            load_rows(params.dtype, queries, rows, d, params.softmax_scale, scratch.queries.data());
            tile_product<Store::overwrite>({scratch.queries.data(), padded(d), 1},
                                           scratch.keys_transposed.data() + columns.first,
                                           kTransposedStride, scores + columns.first, kTileKeys,
                                           rows.size(), columns.size(), d);
          }
          if (params.softcap > 0)
            cap_scores(params, queries, rows, scratch.keys_transposed.data(), columns, scores);
          float* const out = state.out_accum + first_row * d_v;
          for (Index i = rows.size() - 1; i >= 0; --i) {  // backwards for split_row()
            if (mask.has_holes())
              fill_outside(scores + i * kTileKeys, mask, i, kMinusInfinity<float>);
            float& row_max = state.row_max[first_row + i];
            double& row_sum = state.row_sum[first_row + i];
            float* const row_scores = scores + i * kTileKeys;
            float* const row_out = out + i * d_v;
            float* const words = scores + i * words_of_weights(kTileKeys);
            if (values_seen.largest >= kLargeValue || is_lowered(row_sum)) {
              softmax_lowered_row(row_scores, columns, lowered_weight(params.seqlen), row_max,
                                  row_sum, row_out, d_v);
              if (by_amx) split_row(row_scores, columns, 1 / kAmxUnit, words);
            } else if (by_amx) {
              softmax_row<true>(row_scores, columns, row_max, row_sum, row_out, d_v, words);
            } else {
              softmax_row<false>(row_scores, columns, row_max, row_sum, row_out, d_v, nullptr);
            }
          }
          if (by_amx) {
            amx_product(weights_as_left(scores, kTileKeys).from_inner(columns.first),
                        amx_values.from_inner(columns.first), Store::overwrite, product, stride,
                        rows.size(), d_v, columns.size());
            add_amx_product(product, rows.size(), d_v, out);
            continue;
          }
          const Interval seen = mask.columns;
          float* const values = scratch.values.data() + seen.first * stride;
          const NonFiniteTakenOut taken_out(
              values, seen.size(), d_v,
              mask.tile_class == TileClass::full || values_seen.all_finite);
          tile_product<Store::accumulate>({scores + seen.first, kTileKeys, 1}, values, stride, out,
                                          d_v, rows.size(), d_v, seen.size());
          taken_out.for_each([&](Index key_row, Index x, float value) {
            for (Index i = 0; i < rows.size(); ++i)
              if (mask.allows(i, seen.first + key_row))
                out[i * d_v + x] += scores[i * kTileKeys + seen.first + key_row] * value;
          });
        }
      }
    }
  }
  stats.pairs /= params.batch * params.num_heads;
  return stats;
}

namespace {

// Let a sink join a row's sum, as a key without a value. All states of the row's keys are merged by
// now, so it is counted once, and the backward pass finds it in row_max and row_sum.
void add_sink(float sink, Index seqlen, float& row_max, double& row_sum, float* out, Index width) {
  if (sink == kMinusInfinity<float>) return;
  if (row_sum == 0) std::fill_n(out, width, 0.0f);
  const float new_max = std::fmax(row_max, sink);
  const double factor = rescale_factor<double>(row_max, new_max);
  row_sum = row_sum * factor + weight_unit(row_sum, seqlen) * rescale_factor<double>(sink, new_max);
  for (Index x = 0; x < width; ++x) out[x] *= static_cast<float>(factor);
  row_max = new_max;
}

}  // namespace

void finish_attention(const AttentionParams& params, const QueryBlock& q,
                      const SoftmaxState& state) {
  const Index d_v = params.value_dim();
  for (Index i = 0; i < row_values(params, q.rows); ++i) {
    if (params.sink_logits != nullptr)
      add_sink(params.sink_of(i, q.rows), params.seqlen, state.row_max[i], state.row_sum[i],
               state.out_accum + i * d_v, d_v);
    const double sum = state.row_sum[i];
    const RowState<double> row{state.row_max[i], sum / weight_unit(sum, params.seqlen)};
    state.lse[i] = static_cast<float>(lse_of(row));
    float* out = state.out_accum + i * d_v;
    if (sum == 0) {
      std::fill_n(out, d_v, 0.0f);
    } else if (!is_lowered(sum)) {
      for (Index x = 0; x < d_v; ++x) out[x] = static_cast<float>(out[x] / sum);
    } else {
      for (Index x = 0; x < d_v; ++x) out[x] = mean_of_values(out[x] / sum);
    }
  }
}

}  // namespace ringscope
