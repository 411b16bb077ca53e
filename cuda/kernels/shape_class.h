// Which problems share a tile size. A step belongs to a class by dtype, head_dim, the sizes rounded
// up to powers of two, and how much of rows x keys is allowed, in quarters: full steps like large
// tiles, narrow windows small ones. Beyond a size that fills every GPU, classes don't grow.
#pragma once

#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

struct ShapeClass {
  DType dtype = DType::f32;
  int head_dim = 0;
  int log2_rows_q = 0, log2_rows_k = 0;
  int log2_heads = 0;  // of batch x heads
  int quarters = 4;    // 1..4: allowed pairs over rows_q x rows_k, rounded up

  bool operator==(const ShapeClass&) const = default;
};

inline constexpr int kLargestLog2Rows = 13;   // 8192: a tile's inner loop is long by then
inline constexpr int kLargestLog2Total = 17;  // rows_q x heads: 1024 blocks of 128 rows

// `share`: allowed pairs over rows_q x rows_k, in [0, 1].
ShapeClass shape_class_of(const StepShape& shape, DType dtype, double share);

// A problem of the class to time kernels on: the largest sizes, heads without groups.
StepShape representative(const ShapeClass& shape_class);

// Allowed keys of the representative: a staircase that holds the class's share of all pairs.
std::vector<RowInterval> representative_keys(const ShapeClass& shape_class);

// "bf16 d128 q8192 k8192 h16 4/4"
std::string name_of(const ShapeClass& shape_class);

}  // namespace ringscope::cuda
