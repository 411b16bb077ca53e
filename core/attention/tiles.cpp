#include "core/attention/tiles.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/attention/large_values.h"

namespace ringscope {

int vector_width() { return kVectorWidth; }
const char* vector_isa() { return kVectorIsa; }
Index packed_values(Index rows, Index columns) { return rows * round_up(columns, kPanel); }

namespace {

template <class Stored>
const Stored* row_of(const void* tensor, Index row, Index head_dim) {
  return static_cast<const Stored*>(tensor) + row * head_dim;
}

// Copy `count` values times `scale` to f32, rounded once. Where f32 holds the scale, f64 is not needed.
template <class Stored>
void load_row(const Stored* from, Index count, double scale, float* to) {
  const auto copy = [&](auto factor) {
    for (Index x = 0; x < count; ++x) to[x] = static_cast<float>(to_float(from[x]) * factor);
  };
  if (const auto factor = static_cast<float>(scale); factor == scale)
    copy(factor);
  else
    copy(scale);
}

}  // namespace

void load_rows(DType dtype, const void* tensor, Interval rows, Index head_dim, double scale,
               float* to) {
  const Index stride = padded(head_dim);
  visit_dtype(dtype, [&]<class Stored>(Stored) {
    for (Index r = rows.first; r < rows.last; ++r, to += stride) {
      load_row(row_of<Stored>(tensor, r, head_dim), head_dim, scale, to);
      for (Index x = head_dim; x < stride; ++x) to[x] = 0;
    }
  });
}

// Bits of magnitudes are ordered as these are, with NaN above infinity.
SeenValues seen_in(const float* tile, Index values) {
  constexpr std::uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
  BitsVector most{}, most_finite{};
  for (Index at = 0; at < values; at += kVectorWidth) {
    BitsVector bits;
    std::memcpy(&bits, tile + at, sizeof bits);
    bits &= kMagnitude;
    most = bits > most ? bits : most;
    const BitsVector finite = bits < kInfinity ? bits : BitsVector{};
    most_finite = finite > most_finite ? finite : most_finite;
  }
  const auto larger = [](auto a, auto b) { return a > b ? a : b; };
  const auto largest = [&](const BitsVector& bits) {
    return over_lanes<std::uint32_t, kVectorWidth>(bits, larger);
  };
  return {largest(most) < kInfinity, std::bit_cast<float>(largest(most_finite))};
}

void load_rows_transposed(DType dtype, const void* tensor, Interval rows, Index head_dim,
                          float* to) {
  visit_dtype(dtype, [&]<class Stored>(Stored) {
    for (Index r = 0; r < rows.size(); ++r) {
      const Stored* from = row_of<Stored>(tensor, rows.first + r, head_dim);
      for (Index x = 0; x < head_dim; ++x) to[x * kTransposedStride + r] = to_float(from[x]);
    }
    for (Index x = 0; x < head_dim; ++x)
      for (Index r = rows.size(); r < round_up(rows.size(), column_step(true)); ++r)
        to[x * kTransposedStride + r] = 0;
  });
}

float amx_limit_of_keys(const AttentionParams& params, const QueryBlock& q) {
  constexpr Index kLeastWidth = 16, kMostWidth = 1024;  // what fits into scratch, and into f32
  constexpr float kMostScore = 0x1p12f;
  const auto fits = [](Index width) { return kLeastWidth <= width && width <= kMostWidth; };
  if (params.dtype != DType::bf16 || !fits(params.head_dim) || !fits(params.value_dim()) ||
      !has_amx())
    return 0;
  const bf16 scale = bf16::from_float(static_cast<float>(params.softmax_scale));
  const float largest_q =
      largest_ordinary(static_cast<const bf16*>(q.q), query_values(params, q.rows));
  const float size = largest_ordinary(&scale, 1) * static_cast<float>(params.head_dim) * largest_q;
  return std::isnan(size) ? 0 : kMostScore / size;
}

bool may_use_amx(const bf16* k, Index k_values, const bf16* v, Index v_values,
                 float limit_of_keys) {
  return limit_of_keys > 0 && largest_ordinary(k, k_values) < limit_of_keys &&
         std::isfinite(largest_ordinary(v, v_values));
}

bool may_use_amx(const AttentionParams& params, const QueryBlock& q, const BackwardState& state) {
  for (Index i = 0; i < row_values(params, q.rows); ++i)
    if (is_lowered(state.row_sum[i]) || !(std::abs(state.delta[i]) < 0x1p50f)) return false;
  return std::isfinite(
      largest_ordinary(static_cast<const bf16*>(q.dout), out_values(params, q.rows)));
}

void add_amx_product(const float* product, Index rows, Index width, float* to) {
  for (Index i = 0; i < rows; ++i)
    for (Index x = 0; x < width; ++x)
      to[i * width + x] += product[i * padded(width) + x] * kAmxUnit;
}

TileMask::TileMask(const Region& region, Interval rows, Interval keys, Index step)
    : tile_class(region.tile_class(rows, keys)), column_step(step) {
  if (tile_class == TileClass::empty) return;
  if (tile_class == TileClass::full) {
    columns = {0, keys.size()};
    for (Index i = 0; i < rows.size(); ++i) allowed[i] = columns;
    pairs = rows.size() * keys.size();
    return;
  }
  columns = {keys.size(), 0};
  for (Index i = 0; i < rows.size(); ++i) {
    const auto within = [&](Interval local) {
      return Interval{clamp(local.first - keys.first, 0, keys.size()),
                      clamp(local.last - keys.first, 0, keys.size())};
    };
    if (region.mask.is_in_pieces()) {
      region.for_allowed_rows(rows.first + i, [&](Interval local) {
        const Interval piece = within(local);
        if (piece.size() == 0) return;
        if (allowed[i].size() == 0) {
          allowed[i] = piece;
          return;
        }
        if (piece.first > allowed[i].last) {
          gaps.push_back({i, {allowed[i].last, piece.first}});
          pairs -= gaps.back().second.size();
        }
        allowed[i].last = piece.last;
      });
    } else {
      allowed[i] = within(region.allowed_rows(rows.first + i));
    }
    if (allowed[i].size() == 0) continue;
    columns.first = min_of(columns.first, allowed[i].first);
    columns.last = max_of(columns.last, allowed[i].last);
    pairs += allowed[i].size();
  }
}

void cap_scores(const AttentionParams& params, const void* q, Interval rows,
                const float* keys_transposed, Interval columns, float* scores) {
  const auto cap = static_cast<float>(params.softcap);
  const Index d = params.head_dim;
  visit_dtype(params.dtype, [&]<class Stored>(Stored) {
    for (Index row = rows.first; row < rows.last; ++row, scores += kTileKeys)
      for (Index j = columns.first; j < columns.last; ++j) {
        if (std::isfinite(scores[j])) {
          scores[j] = cap * std::tanh(scores[j] / cap);
          continue;
        }
        double product = 0;
        for (Index x = 0; x < d; ++x)
          product += static_cast<double>(to_float(row_of<Stored>(q, row, d)[x])) *
                     keys_transposed[x * kTransposedStride + j];
        scores[j] = cap * static_cast<float>(std::tanh(params.softmax_scale * product / cap));
      }
  });
}

void count_tile(const TileMask& mask, BlockStats& stats) {
  stats.pairs += mask.pairs;
  switch (mask.tile_class) {
    case TileClass::empty:
      ++stats.tiles_skipped;
      break;
    case TileClass::partial:
      ++stats.tiles_partial;
      break;
    case TileClass::full:
      ++stats.tiles_full;
      break;
  }
}

NonFiniteTakenOut::NonFiniteTakenOut(float* tile, Index rows, Index head_dim, bool none)
    : tile_(tile), stride_(padded(head_dim)) {
  if (none) return;
  for (Index at = 0; at < rows * stride_; ++at)
    if (!std::isfinite(tile[at])) taken_.emplace_back(at, std::exchange(tile[at], 0.0f));
}

NonFiniteTakenOut::~NonFiniteTakenOut() {
  for (const auto& [at, value] : taken_) tile_[at] = value;
}

}  // namespace ringscope
