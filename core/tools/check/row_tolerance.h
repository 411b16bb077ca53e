// How far off a row may be, and the row of a tensor that is furthest off. Every row is judged by itself,
// so that one large row does not hide what is wrong in others.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/attention/row_bounds.h"
#include "core/base/dtype.h"
#include "core/threads/rows.h"

namespace ringscope {

// The error of rounding a number near 1, and the smallest number above 0 that is stored.
constexpr double half_unit_of(DType dtype) {
  return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-9;
}
constexpr double smallest_of(DType dtype) {
  return dtype == DType::f32 ? 0x1p-149 : dtype == DType::f16 ? 0x1p-24 : 0x1p-133;
}

// Return the largest error of an element of row `at` that a computation in `dtype` explains. In 16
// bits it is some half units of the row's largest |element| and of the terms that the row is a sum of.
inline double rounding_of(Tensor tensor, DType dtype, const RowBound& bound, Index at,
                          double largest) {
  if (dtype == DType::f32) return bound.f32[at];
  const double half_units = tensor >= Tensor::dq ? 8 : 6;
  return bound.f32[at] + half_units * half_unit_of(dtype) * (largest + bound.terms[at]) +
         smallest_of(dtype);
}

// The row of a tensor whose error is the largest part of its tolerance.
struct WorstRow {
  Index batch = 0, head = 0, row = -1;  // by position; -1: no row
  double error = 0, tolerance = 0;      // largest one of the row's elements

  // Where NaN makes the tolerance NaN, only equal rows pass.
  bool passes() const { return error == 0 || error <= tolerance; }
  double share() const {
    if (error == 0) return 0;
    const double share = error / tolerance;
    return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  }
  void take_if_worse(const WorstRow& other) {
    if (row < 0 || other.share() > share()) *this = other;
  }
  std::string place() const { return fmt::format("batch {}, head {}, row {}", batch, head, row); }
};

// The distances of one row's elements from right ones. A NaN or infinity agrees with the same value
// alone, and is infinitely far from all others.
struct RowDistance {
  double most = 0, squares = 0;
  double largest = 0;  // |right element| that is finite
  Index disagreeing_non_finite = 0;

  template <class T>
  RowDistance(const double* right, const T* given, Index width) {
    for (Index c = 0; c < width; ++c) {
      const double expected = right[c], got = given[c];
      if (std::isfinite(expected)) largest = std::max(largest, std::abs(expected));
      if (expected == got || (std::isnan(expected) && std::isnan(got))) continue;
      double error = std::abs(got - expected);
      if (!std::isfinite(error)) {
        ++disagreeing_non_finite;
        error = std::numeric_limits<double>::infinity();
      }
      most = std::max(most, error);
      squares += error * error;
    }
  }
};

}  // namespace ringscope
