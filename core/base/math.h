// Integer arithmetic for the closed forms of masks and partitions. It uses neither the heap nor
// CUDA, so kernels can call it.
#pragma once

#include <cstdint>

namespace ringscope {

using Index = std::int64_t;  // rows, positions, and counts of them

constexpr Index min_of(Index a, Index b) { return a < b ? a : b; }
constexpr Index max_of(Index a, Index b) { return a > b ? a : b; }

// Return x limited to [low, high].
constexpr Index clamp(Index x, Index low, Index high) { return min_of(max_of(x, low), high); }

// Return the smallest integer >= a / b, for b > 0 and a of either sign.
constexpr Index ceil_div(Index a, Index b) { return a > 0 ? (a - 1) / b + 1 : -(-a / b); }

// Return a rounded up to a multiple of b, for a >= 0 and b > 0.
constexpr Index round_up(Index a, Index b) { return ceil_div(a, b) * b; }

}  // namespace ringscope
