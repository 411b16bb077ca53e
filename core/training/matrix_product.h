// Matrix products C = A B and C += A B of any size, which a layer does outside attention.
//
// A value of C depends only on its row of A and its column of B, bit for bit, so a row comes out
// the same whichever rank holds it. (Libraries pass the rows that don't fill a tile through other
// code, which rounds differently.) Here every row goes through tile_product over a copy of B in
// panels, and the inner dimension is always cut at the same places.
#pragma once

#include "core/attention/vectors.h"
#include "core/base/buffer.h"
#include "core/base/dtype.h"
#include "core/base/math.h"
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

// View `data` as a matrix [rows, columns] in C order.
inline MatrixView row_major(const float* data, Index rows, Index columns) {
  return {data, rows, columns, columns, 1};
}

// Holds the memory for the copy of B, so every thread needs its own.
class MatrixProduct {
 public:
  // Rows of A whose kPackedRows values fit in L2.
  static constexpr Index kRows = 96;

  // `pulse`, unless it is null, is ticked every kRows rows of A, where it can stop a product. There
  // is room at once for a B of `columns` columns; wider ones make more, which `meter` (null: nobody)
  // counts. Both must outlive the MatrixProduct. A and B are rounded to `dtype` before they are
  // multiplied; products are added up in f32.
  explicit MatrixProduct(WorkPulse* pulse = nullptr, MemoryMeter* meter = nullptr,
                         Index columns = 0, DType dtype = DType::f32);

  // Compute c [a.rows, b.columns] in C order, apart from a and b. a.columns equals b.rows. Throw
  // RunError after pulse->stop().
  void operator()(Store store, const MatrixView& a, const MatrixView& b, float* c);

  // Return the FLOPs of all calls so far; a multiply-add counts as two.
  double flops() const { return flops_; }

 private:
  void pack(const MatrixView& b);
  MatrixView rounded(const MatrixView& a);
  template <Store kStore>
  void add_chunk(const MatrixView& a, Index columns, float* c);

  WorkPulse* pulse_;
  MemoryMeter* meter_;
  DType dtype_;
  Buffer<float> packed_;
  Buffer<float> rounded_;  // kRows of A; empty in f32
  double flops_ = 0;
};

}  // namespace ringscope
