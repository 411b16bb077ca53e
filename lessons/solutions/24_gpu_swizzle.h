// Exercise 24, solved.
#pragma once

inline int byte_of(int row, int column, int rows) {
  const int panel = column / 64, unit = column % 64 / 8;
  return panel * rows * 128 + row * 128 + (unit ^ (row % 8)) * 16 + column % 8 * 2;
}
