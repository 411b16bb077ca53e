// A row of the table for each byte; backward, the rows' gradients go to the table's rows of their
// bytes. Positions come in later, by rotation (rotary.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/math.h"

namespace ringscope {

// table [vocab, width], x [rows, width].
inline void embedding_forward(Index rows, Index width, const std::uint8_t* bytes,
                              const float* table, float* x) {
  for (Index row = 0; row < rows; ++row)
    std::copy_n(table + bytes[row] * width, width, x + row * width);
}

// Adds to dtable.
inline void embedding_backward(Index rows, Index width, const std::uint8_t* bytes, const float* dx,
                               float* dtable) {
  for (Index row = 0; row < rows; ++row) {
    float* const to = dtable + bytes[row] * width;
    for (Index i = 0; i < width; ++i) to[i] += dx[row * width + i];
  }
}

}  // namespace ringscope
