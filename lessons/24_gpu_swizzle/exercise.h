// Exercise 24: where a number lies.
//
// K has head_dim 128. Its tile of `rows` rows lies in shared memory as two panels: the first has
// columns 0 to 63 of all rows, the second, right behind it, columns 64 to 127. A row of a panel has 64
// numbers of two bytes, and its units of 16 bytes are swizzled as in lesson 24.
#pragma once

// Return the bytes from the tile's begin to number `column` of row `row`.
inline int byte_of(int row, int column, int rows) {
  return row * 256 + column * 2;  // not yet right: neither panels nor swizzle
}
