// Exercise 7, solved.
#pragma once

#include <algorithm>

// Query q + i may see keys up to itself: q + i - k + 1 of them, but not less than 0, and not more
// than rows.
inline double pairs(double q, double k, double rows) {
  const double ahead = q - k + 1;  // what query q may see, before it is clamped
  // Below: the sum over i of max(0, ahead + i); then what exceeds `rows` is taken off.
  const auto ramp = [](double first, double count) {
    const double from = std::max(0.0, -first);  // the first i that adds something
    const double n = std::max(0.0, count - from);
    return n * (first + from) + n * (n - 1) / 2;
  };
  return ramp(ahead, rows) - ramp(ahead - rows, rows);
}
