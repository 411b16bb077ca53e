// A linear projection of rows, without bias:  y = x W,  and backward
//
//   dx = dy W^T        dW += x^T dy
#pragma once

#include "core/layer/parameters.h"

namespace ringscope {

// x [rows, weight.rows], y [rows, weight.columns]; y is overwritten or added to.
inline void linear_forward(MatrixProduct& product, const ParameterStore& store,
                           const Parameter& weight, Index rows, const float* x, Store to_y,
                           float* y) {
  product(to_y, row_major(x, rows, weight.rows), store.matrix(weight), y);
}

// dx [rows, weight.rows] is overwritten or added to, the weight's gradient added to.
inline void linear_backward(MatrixProduct& product, ParameterStore& store, const Parameter& weight,
                            Index rows, const float* x, const float* dy, Store to_dx, float* dx) {
  product(Store::accumulate, row_major(x, rows, weight.rows).transposed(),
          row_major(dy, rows, weight.columns), store.gradient(weight));
  product(to_dx, row_major(dy, rows, weight.columns), store.matrix(weight).transposed(), dx);
}

}  // namespace ringscope
