// What the forward and the backward tile loops share: tiles brought to f32, and a tile's mask as
// one interval of keys a row.
#pragma once

#include <utility>
#include <vector>

#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"

namespace ringscope {

// Rows of f32 scratch are padded to whole vectors.
inline Index padded(Index columns) { return round_up(columns, kVectorWidth); }

// Copies rows [rows.first, rows.last) of a row-major [.., head_dim] tensor to f32, times `scale`,
// rows padded with zeros. Returns whether every value is finite.
bool load_rows(DType dtype, const void* tensor, Interval rows, Index head_dim, double scale,
               float* to);

// The same, transposed: to[x * kTileKeys + row], padded with zeros to whole vectors of rows.
bool load_rows_transposed(DType dtype, const void* tensor, Interval rows, Index head_dim,
                          float* to);

// The part of a tensor that starts after `values` values.
inline const void* offset_by(const void* tensor, DType dtype, Index values) {
  return static_cast<const char*>(tensor) + values * bytes_of(dtype);
}

// A tile of local rows x local keys, and which of its keys (counted from the tile's first) each row
// may attend. `columns` is the hull of the rows' intervals; outside of it nothing is computed.
struct TileMask {
  TileClass tile_class = TileClass::empty;
  Interval columns;
  Interval allowed[kTileRows];
  Index pairs = 0;

  TileMask(const Region& region, Interval rows, Interval keys);

  // Whether some pair among the computed ones (vector_columns()) is not allowed.
  bool has_holes() const { return tile_class == TileClass::partial || vector_columns() != columns; }
  // `columns`, widened to whole vectors.
  Interval vector_columns() const {
    return {columns.first / kVectorWidth * kVectorWidth, padded(columns.last)};
  }
};

// Writes `value` to the columns of one row of a tile that are computed but not allowed.
inline void fill_outside(float* row, Interval computed, Interval allowed, float value) {
  const Index end = min_of(max_of(allowed.first, computed.first), computed.last);
  for (Index j = computed.first; j < end; ++j) row[j] = value;
  for (Index j = max_of(max_of(allowed.last, end), computed.first); j < computed.last; ++j)
    row[j] = value;
}

// Counts a tile under its class.
void count_tile(const TileMask& mask, BlockStats& stats);

// ---
// Keeping NaN and infinity where the mask puts them. A masked weight is 0, but 0 times NaN or
// infinity is NaN, and a product over a whole tile would carry it to rows that may not see it.

// The NaN and infinite values of a partial tile's right-hand rows, set to 0 while this object
// lives. Whoever multiplied adds their products afterwards, for the rows that may see them;
// everyone else's bits are as if all had been finite.
class NonFiniteTakenOut {
 public:
  // `tile` as load_rows wrote it; `none` when it is known to be finite.
  NonFiniteTakenOut(float* tile, Index rows, Index head_dim, bool none);
  ~NonFiniteTakenOut();  // puts them back
  NonFiniteTakenOut(const NonFiniteTakenOut&) = delete;
  NonFiniteTakenOut& operator=(const NonFiniteTakenOut&) = delete;

  // f(row, column, value) for each.
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
