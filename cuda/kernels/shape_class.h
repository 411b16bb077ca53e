// Groups problems that share a tile size. A step's class is its dtype, head_dim, sizes rounded up
// to powers of two, and allowed share of rows x keys in quarters, because full steps like large
// tiles and narrow windows small ones. Classes stop growing at a size that fills every GPU.
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

// `share` is allowed pairs over rows_q x rows_k, in [0, 1].
ShapeClass shape_class_of(const StepShape& shape, DType dtype, double share);

// Return a problem of the class to time kernels on: the largest sizes, heads without groups.
StepShape representative(const ShapeClass& shape_class);

// Return the representative's allowed keys: a staircase with the class's share of all pairs.
std::vector<RowInterval> representative_keys(const ShapeClass& shape_class);

// Return, for example, "bf16 d128 q8192 k8192 h16 4/4".
std::string name_of(const ShapeClass& shape_class);

}  // namespace ringscope::cuda
