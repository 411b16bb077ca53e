// The vectors of attention and of matrix products, for code that is the same whatever their width is. A
// build for several processors compiles such code once, and tile_product.h once per width.
#pragma once

#include "core/base/math.h"

namespace ringscope {

// Return how many floats a vector has.
int vector_width();

// Return the name of the instructions that work on vectors: "AVX-512", "AVX2", "AVX", "SSE" or "NEON".
const char* vector_isa();

// Return why this process may not multiply bf16 by AMX (amx.h), or "" if it may. The environment, the
// processor and the kernel are asked once.
const char* why_no_amx();
inline bool has_amx() { return *why_no_amx() == '\0'; }

// Whether a product replaces what is there or is added to it.
enum class Store { overwrite, accumulate };

// A matrix B that does not lie in cache is copied in panels, this many of its rows at a time.
inline constexpr Index kPackedRows = 256;
// Return how many values a copy of `rows` x `columns` has, whose last panel is padded.
Index packed_values(Index rows, Index columns);

}  // namespace ringscope
