#include "cuda/kernels/shape_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace ringscope::cuda {
namespace {

// Return the smallest n with 2^n >= x.
int log2_rounded_up(long long x) {
  return x <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned long long>(x - 1)));
}

}  // namespace

ShapeClass shape_class_of(const StepShape& shape, DType dtype, double share) {
  ShapeClass c;
  c.dtype = dtype;
  c.head_dim = shape.head_dim;
  c.log2_rows_q = std::min(log2_rounded_up(shape.rows_q), kLargestLog2Rows);
  c.log2_rows_k = std::min(log2_rounded_up(shape.rows_k), kLargestLog2Rows);
  const long long heads = static_cast<long long>(shape.batch) * shape.heads;
  c.log2_heads = std::min(log2_rounded_up(heads), kLargestLog2Total - c.log2_rows_q);
  c.quarters = std::clamp(static_cast<int>(std::ceil(share * 4)), 1, 4);
  return c;
}

StepShape representative(const ShapeClass& shape_class) {
  StepShape shape;
  shape.heads = shape.heads_kv = 1 << shape_class.log2_heads;
  shape.rows_q = 1 << shape_class.log2_rows_q;
  shape.rows_k = 1 << shape_class.log2_rows_k;
  shape.head_dim = shape_class.head_dim;
  return shape;
}

std::vector<RowInterval> representative_keys(const ShapeClass& shape_class) {
  const StepShape shape = representative(shape_class);
  const double share = shape_class.quarters / 4.0;
  // The line y = x + shift, cut off at 0 and 1, has `share` of the unit square below it.
  const double shift = share > 0.5 ? 1 - std::sqrt(2 * (1 - share)) : std::sqrt(2 * share) - 1;
  std::vector<RowInterval> keys(static_cast<std::size_t>(shape.rows_q));
  for (int i = 0; i < shape.rows_q; ++i) {
    const double end = std::clamp((i + 0.5) / shape.rows_q + shift, 0.0, 1.0);
    keys[static_cast<std::size_t>(i)] = {
        0, static_cast<std::int32_t>(std::lround(end * shape.rows_k))};
  }
  return keys;
}

std::string name_of(const ShapeClass& c) {
  return fmt::format("{} d{} q{} k{} h{} {}/4", ringscope::name_of(c.dtype), c.head_dim,
                     1 << c.log2_rows_q, 1 << c.log2_rows_k, 1 << c.log2_heads, c.quarters);
}

}  // namespace ringscope::cuda
