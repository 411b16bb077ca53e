// C = A B, or C += A B, for matrices of any size: what a layer does to its rows outside attention.
//
// A value of C depends on its row of A and its column of B alone, bit for bit: not on how many rows
// there are, nor on where the row lies among them. So a row comes out the same whichever rank holds
// it. (Libraries take the rows that don't fill a tile through other code, which rounds otherwise.)
// Here every row goes through tile_product, with the inner dimension cut at the same places, over a
// copy of B that is laid out panel by panel.
#pragma once

#include <vector>

#include "core/attention/tile_product.h"
#include "core/base/work_pulse.h"

namespace ringscope {

// Element (i, j) is data[i * row_stride + j * column_stride].
struct MatrixView {
  const float* data = nullptr;
  Index rows = 0;
  Index columns = 0;
  Index row_stride = 0;
  Index column_stride = 1;

  MatrixView transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

// [rows, columns] in C order.
inline MatrixView row_major(const float* data, Index rows, Index columns) {
  return {data, rows, columns, columns, 1};
}

// With the memory for the copy of B; one a thread.
class MatrixProduct {
 public:
  // `pulse`, unless it is null, is ticked every few rows of A (it can stop a product there), and
  // must outlive it.
  explicit MatrixProduct(WorkPulse* pulse = nullptr) : pulse_(pulse) {}

  // c: [a.rows, b.columns] in C order, apart from a and b. a.columns is b.rows. Throws RunError
  // after pulse->stop().
  void operator()(Store store, const MatrixView& a, const MatrixView& b, float* c);

  // Of all calls so far; a multiply-add is two.
  double flops() const { return flops_; }

 private:
  void pack(const MatrixView& b);

  WorkPulse* pulse_;
  std::vector<float> packed_;
  double flops_ = 0;
};

}  // namespace ringscope
