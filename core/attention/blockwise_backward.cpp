// The backward tile loop. It recomputes P from the saved row statistics, so the forward pass keeps
// nothing of size rows x keys (S1, part two, 8.1):
//
//   P = exp(scale Q K^T - m) / l      dP = dO V^T      dS = P * (dP - delta)
//   dV += P^T dO      dK += dS^T (scale Q)      dQ += dS K, times scale at the end
//
// A softcap c makes c tanh(s / c) of a score s, whose derivative 1 - tanh(s / c)^2 multiplies dS.
//
// m and l must be the final ones over all keys of all blocks, because a block's own give a wrong
// dQ. lse = m + log(l) would do as well, but in f32 its last digit is worth several of P's.

#include <algorithm>
#include <cmath>

#include "core/attention/blockwise.h"
#include "core/attention/large_values.h"
#include "core/attention/online_softmax.h"
#include "core/attention/tile_product.h"
#include "core/attention/tiles.h"

namespace ringscope {
namespace {

// Return e of a row (large_values.h) from its dO.
template <class Stored>
int dout_exponent(const Stored* dout, Index width, double row_sum) {
  // Nearly all rows are far from any need of it, and this much is seen by vectors.
  int is_large = is_lowered(row_sum) || width > 1 << 14;
  for (Index x = 0; x < width; ++x) is_large |= !(std::abs(to_float(dout[x])) < 0x1p48f);
  if (!is_large) return 0;
  double sum = 0;
  for (Index x = 0; x < width; ++x) sum += std::abs(static_cast<double>(to_float(dout[x])));
  return unit_exponent(sum, row_sum);
}

}  // namespace

void begin_backward(const AttentionParams& params, const QueryBlock& q,
                    const BackwardState& state) {
  const Index d = params.value_dim();
  if (state.out != nullptr)
    visit_dtype(params.dtype, [&]<class Stored>(Stored) {
      const Stored* dout = static_cast<const Stored*>(q.dout);
      for (Index i = 0; i < row_values(params, q.rows); ++i) {
        double sum = 0;  // f64, rounded once, because dP - delta is often a small difference
        for (Index x = 0; x < d; ++x)
          sum += static_cast<double>(to_float(dout[i * d + x])) * state.out[i * d + x];
        state.delta[i] =
            static_cast<float>(std::ldexp(sum, -dout_exponent(dout + i * d, d, state.row_sum[i])));
      }
    });
  for (Index i = 0; i < query_values(params, q.rows); ++i) state.dq[i] = 0;
}

namespace {

// Turn the scores of one tile row into P, and its dP into dS.
void softmax_backward_row(float* scores, float* dscores, Interval columns, float row_max,
                          double row_sum, double weight_of_one, float delta, double softcap) {
  // With no keys, or only -inf scores, any finite unit gives P = exp(-inf) = 0 instead of NaN.
  const Vector unit = broadcast(row_max == kMinusInfinity<float> ? 0.0f : row_max);
  const Vector weight =
      broadcast(row_sum == 0 ? 0.0f : static_cast<float>(weight_of_one / row_sum));
  const Vector delta_lanes = broadcast(delta);
  const Vector cap = broadcast(static_cast<float>(softcap));
  for (Index j = columns.first; j < columns.last; j += kVectorWidth) {
    const Vector score = load(scores + j), p = exp_of(score - unit) * weight;
    Vector ds = p * (load(dscores + j) - delta_lanes);
    if (softcap > 0) ds *= 1 - score / cap * (score / cap);  // of a saturated one exactly 0
    store(scores + j, p);
    store(dscores + j, ds);
  }
}

// Set units[i] to e of row i of a tile of dO (large_values.h). Return whether one is above 0.
bool find_units(const float* dout, Index rows, Index width, const double* row_sums, int* units) {
  bool has_one = false;
  for (Index i = 0; i < rows; ++i) {
    units[i] = dout_exponent(dout + i * padded(width), width, row_sums[i]);
    has_one |= units[i] > 0;
  }
  return has_one;
}

// Multiply row i of a tile by 2^exponent(i).
template <class Exponent>
void scale_rows(float* tile, Index stride, Index rows, Index columns, const Exponent& exponent) {
  for (Index i = 0; i < rows; ++i)
    for (Index x = 0; x < columns; ++x)
      tile[i * stride + x] = std::ldexp(tile[i * stride + x], exponent(i));
}

// Lend dK what a tile's rows of dS lack: the powers of two of dO's units, and of a scale that makes a query
// infinite, which is then loaded with a smaller one. Queries take as much as they have room for. Set
// left[i] to what is left for row i of dS.
void lend_to_queries(const AttentionParams& params, const void* q, Interval rows, const int* units,
                     float* queries, int* left) {
  constexpr int kDown = 130;
  const Index d = params.head_dim, stride = padded(d);
  for (Index i = 0; i < rows.size(); ++i, queries += stride) {
    left[i] = units[i];
    if (!seen_in(queries, stride).all_finite) {
      load_rows(params.dtype, q, {rows.first + i, rows.first + i + 1}, d,
                std::ldexp(params.softmax_scale, -kDown), queries);
      left[i] += kDown;
    }
    int exponent = 0;
    std::frexp(seen_in(queries, stride).largest, &exponent);
    const int lent = std::clamp(126 - exponent, 0, left[i]);
    scale_rows(queries, stride, 1, d, [&](Index) { return lent; });
    left[i] -= lent;
  }
}

}  // namespace

BlockStats attend_block_backward(const AttentionParams& params, const Region& region,
                                 const QueryBlock& q, const KvBlock& block,
                                 const BackwardState& state, const KvGradient& gradient,
                                 BlockwiseScratch& scratch) {
  const Index d = params.head_dim, stride = padded(d);
  const Index d_v = params.value_dim(), stride_v = padded(d_v);
  float* const scores = scratch.scores.data();
  float* const dscores = scratch.dscores.data();
  float* const keys_f32 = scratch.values.data();
  // Scores are computed as in the forward pass, to the bit, so that a row's largest one is its row_max.
  const float limit_of_keys = amx_limit_of_keys(params, q);
  const bool may_use = limit_of_keys > 0, gradients_may = may_use && may_use_amx(params, q, state);
  const AmxRegisters registers(may_use);
  const Index tile_rows = gradients_may ? kAmxTileRows : kTileRows;
  static_assert(kAmxTileRows * kAmxParts <= 2 * kTileRows);  // so the parts of weights fit
  float* const queries_as_left = keys_f32 + kTileKeys / 2 * max_of(stride, stride_v);
  float* const dout_as_left = queries_as_left + kAmxInner * stride;
  float* const product = dout_as_left + kAmxInner * stride_v;
  BlockStats stats;
  for (Index kv_head = 0; kv_head < params.batch * params.num_heads_kv; ++kv_head) {
    const void* k = offset_by(block.data, params.dtype, kv_head * block.rows * d);
    const void* v = offset_by(block.data, params.dtype,
                              kv_values(params, block.rows) + kv_head * block.rows * d_v);
    for (Index key = 0; key < block.rows; key += kTileKeys) {
      const Interval keys{key, min_of(key + kTileKeys, block.rows)};
      if (scratch.pulse != nullptr) scratch.pulse->tick();  // even if all its tiles are empty
      bool loaded = false, keys_finite = true, scores_by_amx = false, by_amx = false;
      AmxOperand keys_as_columns{}, values_as_columns{}, keys_as_rows{};
      scratch.dkeys.fill(0);
      scratch.dvalues.fill(0);
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
            scores_by_amx =
                may_use_amx(k_rows, keys.size() * d, v_rows, keys.size() * d_v, limit_of_keys);
            by_amx = scores_by_amx && gradients_may;
            if (scores_by_amx)
              keys_as_columns =
                  columns_as_right(k_rows, keys.size(), d, scratch.keys_transposed.data());
            else
              load_rows_transposed(params.dtype, k, keys, d, scratch.keys_transposed.data());
            if (by_amx) {
              values_as_columns =
                  columns_as_right(v_rows, keys.size(), d_v, scratch.values_transposed.data());
              keys_as_rows = rows_as_right(k_rows, keys.size(), d, keys_f32);
            } else {
              load_rows_transposed(params.dtype, v, keys, d_v, scratch.values_transposed.data());
              load_rows(params.dtype, k, keys, d, 1.0, keys_f32);
              keys_finite = seen_in(keys_f32, keys.size() * stride).all_finite;
            }
            loaded = true;
          }
          const Index head = kv_head * params.group_size() + g;
          const void* const queries = offset_by(q.q, params.dtype, head * q.rows * d);
          const Index first_row = head * q.rows + rows.first;
          const double* const row_sums = state.row_sum + first_row;
          float* const dq = state.dq + first_row * d;
          const auto to_weights = [&](double size) {
            for (Index i = 0; i < rows.size(); ++i) {
              softmax_backward_row(scores + i * kTileKeys, dscores + i * kTileKeys, columns,
                                   state.row_max[first_row + i], row_sums[i],
                                   size * weight_unit(row_sums[i], params.seqlen),
                                   state.delta[first_row + i], params.softcap);
              if (row_sums[i] == 0) {
                std::fill_n(scores + i * kTileKeys, kTileKeys, 0.0f);
                std::fill_n(dscores + i * kTileKeys, kTileKeys, 0.0f);
              }
              if (!mask.has_holes()) continue;
              fill_outside(scores + i * kTileKeys, mask, i, 0.0f);
              fill_outside(dscores + i * kTileKeys, mask, i, 0.0f);
            }
          };
          const bf16* const q_rows = static_cast<const bf16*>(q.q) + first_row * d;
          if (scores_by_amx) {
            amx_product(rows_as_left(q_rows, rows.size(), d, scratch.queries.data()),
                        keys_as_columns.from_block(columns.first), Store::overwrite,
                        scores + columns.first, kTileKeys, rows.size(), columns.size(), d);
            scale_scores(scores, rows.size(), columns, params.softmax_scale);
            if (params.softcap > 0)
              cap_scores(params, queries, rows, scratch.keys_transposed.data(), columns, scores);
          }
          if (by_amx) {
            const bf16* const dout_rows = static_cast<const bf16*>(q.dout) + first_row * d_v;
            amx_product(rows_as_left(dout_rows, rows.size(), d_v, scratch.dout.data()),
                        values_as_columns.from_block(columns.first), Store::overwrite,
                        dscores + columns.first, kTileKeys, rows.size(), columns.size(), d_v);
            to_weights(1 / kAmxUnit);
            // Rows are an inner dimension now: pairs of them, and then nothing.
            const auto split_pairs = [&](float* tile) {
              if (rows.size() % 2 != 0)
                std::fill_n(tile + rows.size() * kTileKeys, kTileKeys, 0.0f);
              for (Index pair = ceil_div(rows.size(), 2) - 1; pair >= 0; --pair)
                split_rows(tile + 2 * pair * kTileKeys, kTileKeys, columns,
                           scores + kAmxParts * pair * kTileKeys);
            };
            const AmxOperand weights =
                weights_as_right(scores, kTileKeys).from_block(columns.first);
            split_pairs(scores);
            const Index split = kAmxParts * ceil_div(rows.size(), 2);
            std::fill(scores + split * kTileKeys, scores + kTileRows * kTileKeys, 0.0f);
            amx_product(columns_as_left(dout_rows, rows.size(), d_v, dout_as_left), weights,
                        Store::accumulate, scratch.dvalues.data() + columns.first, kTileKeys, d_v,
                        columns.size(), rows.size());
            split_pairs(dscores);
            amx_product(columns_as_left(q_rows, rows.size(), d, queries_as_left), weights,
                        Store::accumulate, scratch.dkeys.data() + columns.first, kTileKeys, d,
                        columns.size(), rows.size());
            for (Index i = rows.size() - 1; i >= 0; --i)
              split_row(dscores + i * kTileKeys, columns, 1,
                        dscores + i * words_of_weights(kTileKeys));
            amx_product(weights_as_left(dscores, kTileKeys).from_inner(columns.first),
                        keys_as_rows.from_inner(columns.first), Store::overwrite, product, stride,
                        rows.size(), d, columns.size());
            add_amx_product(product, rows.size(), d, dq);
            continue;
          }
          load_rows(params.dtype, queries, rows, d, params.softmax_scale, scratch.queries.data());
          const auto load_dout = [&] {
            load_rows(params.dtype, offset_by(q.dout, params.dtype, head * q.rows * d_v), rows, d_v,
                      1.0, scratch.dout.data());
          };
          load_dout();
          int units[kTileRows];
          const bool has_units = find_units(scratch.dout.data(), rows.size(), d_v, row_sums, units);
          if (has_units)
            scale_rows(scratch.dout.data(), stride_v, rows.size(), d_v,
                       [&](Index i) { return -units[i]; });
          if (!scores_by_amx) {
            tile_product<Store::overwrite>({scratch.queries.data(), stride, 1},
                                           scratch.keys_transposed.data() + columns.first,
                                           kTransposedStride, scores + columns.first, kTileKeys,
                                           rows.size(), columns.size(), d);
            if (params.softcap > 0)
              cap_scores(params, queries, rows, scratch.keys_transposed.data(), columns, scores);
          }
          tile_product<Store::overwrite>({scratch.dout.data(), stride_v, 1},
                                         scratch.values_transposed.data() + columns.first,
                                         kTransposedStride, dscores + columns.first, kTileKeys,
                                         rows.size(), columns.size(), d_v);
          if (has_units) load_dout();
          int left[kTileRows];
          const bool lends =
              has_units || (params.softcap > 0 &&
                            !seen_in(scratch.queries.data(), rows.size() * stride).all_finite);
          if (lends) lend_to_queries(params, queries, rows, units, scratch.queries.data(), left);
          to_weights(1);
          // What a row without keys holds may be infinite, and has no weight.
          for (Index i = 0; i < rows.size(); ++i)
            if (row_sums[i] == 0) {
              std::fill_n(scratch.queries.data() + i * stride, stride, 0.0f);
              std::fill_n(scratch.dout.data() + i * stride_v, stride_v, 0.0f);
            }
          const Interval seen = mask.columns;
          float* const p = scores + seen.first;
          float* const ds = dscores + seen.first;
          float* const dvalues = scratch.dvalues.data() + seen.first * stride_v;
          float* const dkeys = scratch.dkeys.data() + seen.first * stride;
          const bool full = mask.tile_class == TileClass::full;
          const NonFiniteTakenOut from_dout(
              scratch.dout.data(), rows.size(), d_v,
              full || seen_in(scratch.dout.data(), rows.size() * stride_v).all_finite);
          const NonFiniteTakenOut from_queries(
              scratch.queries.data(), rows.size(), d,
              full || seen_in(scratch.queries.data(), rows.size() * stride).all_finite);
          const NonFiniteTakenOut from_keys(keys_f32 + seen.first * stride, seen.size(), d,
                                            full || keys_finite);
          tile_product<Store::accumulate>({p, 1, kTileKeys}, scratch.dout.data(), stride_v, dvalues,
                                          stride_v, seen.size(), d_v, rows.size());
          tile_product<Store::accumulate>({ds, kTileKeys, 1}, keys_f32 + seen.first * stride,
                                          stride, dq, d, rows.size(), d, seen.size());
          from_keys.for_each([&](Index j, Index x, float value) {
            for (Index i = 0; i < rows.size(); ++i)
              if (mask.allows(i, seen.first + j)) dq[i * d + x] += ds[i * kTileKeys + j] * value;
          });
          if (lends)
            scale_rows(ds, kTileKeys, rows.size(), seen.size(), [&](Index i) { return left[i]; });
          tile_product<Store::accumulate>({ds, 1, kTileKeys}, scratch.queries.data(), stride, dkeys,
                                          stride, seen.size(), d, rows.size());
          const auto for_keys_of = [&](Index i, auto&& add) {
            for (Index j = mask.allowed[i].first; j < mask.allowed[i].last; ++j)
              if (mask.allows(i, j)) add(j - seen.first);
          };
          from_dout.for_each([&](Index i, Index x, float value) {
            for_keys_of(
                i, [&](Index j) { dvalues[j * stride_v + x] += p[i * kTileKeys + j] * value; });
          });
          from_queries.for_each([&](Index i, Index x, float value) {
            for_keys_of(i,
                        [&](Index j) { dkeys[j * stride + x] += ds[i * kTileKeys + j] * value; });
          });
        }
      }
      float* const dk = gradient.data + (kv_head * block.rows + keys.first) * d;
      float* const dv =
          gradient.data + kv_values(params, block.rows) + (kv_head * block.rows + keys.first) * d_v;
      for (Index j = 0; j < keys.size(); ++j) {
        if (by_amx) {  // transposed, of queries that are not scaled
          for (Index x = 0; x < d; ++x)
            dk[j * d + x] = static_cast<float>(scratch.dkeys.data()[x * kTileKeys + j] *
                                               (params.softmax_scale * kAmxUnit));
          for (Index x = 0; x < d_v; ++x)
            dv[j * d_v + x] = scratch.dvalues.data()[x * kTileKeys + j] * kAmxUnit;
          continue;
        }
        std::copy_n(scratch.dkeys.data() + j * stride, d, dk + j * d);
        std::copy_n(scratch.dvalues.data() + j * stride_v, d_v, dv + j * d_v);
      }
    }
  }
  stats.pairs /= params.batch * params.num_heads;
  return stats;
}

void finish_backward(const AttentionParams& params, const QueryBlock& q,
                     const BackwardState& state) {
  const Index d = params.head_dim, d_v = params.value_dim();
  visit_dtype(params.dtype, [&]<class Stored>(Stored) {
    const Stored* const dout = static_cast<const Stored*>(q.dout);
    for (Index i = 0; i < row_values(params, q.rows); ++i) {
      const double row_sum = state.row_sum[i];
      const double factor =
          std::ldexp(params.softmax_scale, dout_exponent(dout + i * d_v, d_v, row_sum));
      for (Index x = 0; x < d; ++x)
        state.dq[i * d + x] = row_sum == 0 ? 0 : static_cast<float>(state.dq[i * d + x] * factor);
    }
  });
}

}  // namespace ringscope
