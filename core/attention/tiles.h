// What the forward and backward tile loops share: loading tiles as f32, masks per tile, and the
// containment of NaN and infinity.
#pragma once

#include <utility>
#include <vector>

#include "core/attention/amx.h"
#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"

namespace ringscope {

// Return `columns` rounded up to whole vectors, which is the length of a row of f32 scratch.
inline Index padded(Index columns) { return round_up(columns, kVectorWidth); }

// Copy rows [rows.first, rows.last) of a row-major [.., head_dim] tensor to f32, times `scale`, and
// pad the rows with zeros.
void load_rows(DType dtype, const void* tensor, Interval rows, Index head_dim, double scale,
               float* to);

// Do the same transposed: to[x * kTransposedStride + row], padded with zeros to whole column_step() rows.
void load_rows_transposed(DType dtype, const void* tensor, Interval rows, Index head_dim,
                          float* to);

// What is in a tile of so many padded values.
struct SeenValues {
  bool all_finite = true;
  float largest = 0;  // magnitude of the finite ones
};
SeenValues seen_in(const float* tile, Index values);

// Return the magnitude below which K must stay for AMX to multiply it by these queries; 0: it may not.
// The scores are then so small that how they are rounded, which AMX does otherwise, decides nothing.
float amx_limit_of_keys(const AttentionParams& params, const QueryBlock& q);
// Return whether AMX may multiply a tile of K and V by queries with this limit.
bool may_use_amx(const bf16* k, Index k_values, const bf16* v, Index v_values, float limit_of_keys);
// Return whether it may multiply gradients of these queries.
bool may_use_amx(const AttentionParams& params, const QueryBlock& q, const BackwardState& state);

// Multiply the scores of a tile's rows by a factor.
inline void scale_scores(float* scores, Index rows, Interval columns, double factor) {
  for (Index i = 0; i < rows; ++i, scores += kTileKeys)
    for (Index j = columns.first; j < columns.last; j += kVectorWidth)
      store(scores + j, load(scores + j) * static_cast<float>(factor));
}

// Add a product of weights (amx.h) to `to`, whose rows have `width` values.
void add_amx_product(const float* product, Index rows, Index width, float* to);

// Return what the computed columns of a tile are rounded up to.
inline Index column_step(bool may_use_amx) { return may_use_amx ? kAmxInner : kVectorWidth; }

// Return the address of value number `values` of a tensor.
inline const void* offset_by(const void* tensor, DType dtype, Index values) {
  return static_cast<const char*>(tensor) + values * bytes_of(dtype);
}

// A tile of local rows x local keys, and the interval of keys (counted from the tile's first) that
// each row may attend, less the gaps in it, which only masks in pieces have. `columns` is the hull
// of the intervals; nothing is computed outside of it.
struct TileMask {
  TileClass tile_class = TileClass::empty;
  Interval columns;
  Interval allowed[kTileRows];
  std::vector<std::pair<Index, Interval>> gaps;  // row, keys; ascending
  Index pairs = 0;

  Index column_step;

  TileMask(const Region& region, Interval rows, Interval keys, Index step = kVectorWidth);

  // Return whether row i of the tile may attend key j of it.
  bool allows(Index i, Index j) const {
    if (!allowed[i].contains(j)) return false;
    for (const auto& [row, keys] : gaps)
      if (row == i && keys.contains(j)) return false;
    return true;
  }

  // Return whether some pair in the computed columns (vector_columns()) is not allowed.
  bool has_holes() const { return tile_class == TileClass::partial || vector_columns() != columns; }
  // Return `columns`, widened to whole steps.
  Interval vector_columns() const {
    return {columns.first / column_step * column_step, round_up(columns.last, column_step)};
  }
};

// Replace a tile's scores by those that a softcap leaves of them. Those that overflowed f32, of which
// the cap leaves a number, are computed again in f64, from the head's queries `q` as they are stored.
// Those of AMX never do.
void cap_scores(const AttentionParams& params, const void* q, Interval rows,
                const float* keys_transposed, Interval columns, float* scores);

// Write `value` to the columns of row i of a tile, at `row`, that are computed but not allowed.
inline void fill_outside(float* row, const TileMask& mask, Index i, float value) {
  const Interval computed = mask.vector_columns(), allowed = mask.allowed[i];
  const Index end = min_of(max_of(allowed.first, computed.first), computed.last);
  for (Index j = computed.first; j < end; ++j) row[j] = value;
  for (Index j = max_of(max_of(allowed.last, end), computed.first); j < computed.last; ++j)
    row[j] = value;
  for (const auto& [gap_row, keys] : mask.gaps)
    if (gap_row == i)
      for (Index j = keys.first; j < keys.last; ++j) row[j] = value;
}

// Count a tile under its class, and add its pairs.
void count_tile(const TileMask& mask, BlockStats& stats);

// ---
// Confining NaN and infinity. A masked weight is 0, but 0 times NaN or infinity is NaN, and a
// product over a whole tile would carry it to rows that may not see it.

// Sets the NaN and infinite values of a partial tile's right-hand rows to 0 while it lives. After
// the product, the caller adds these values' products for the rows that may see them. All other
// rows get the same bits as if every value had been finite.
class NonFiniteTakenOut {
 public:
  // Take values out of `tile`, as load_rows wrote it. `none` says that all are known to be finite.
  NonFiniteTakenOut(float* tile, Index rows, Index head_dim, bool none);
  ~NonFiniteTakenOut();  // puts them back
  NonFiniteTakenOut(const NonFiniteTakenOut&) = delete;
  NonFiniteTakenOut& operator=(const NonFiniteTakenOut&) = delete;

  // Call f(row, column, value) for each value taken out.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [at, value] : taken_) f(at / stride_, at % stride_, value);
  }

 private:
  float* tile_;
  Index stride_;
  std::vector<std::pair<Index, float>> taken_;
};

}  // namespace ringscope
