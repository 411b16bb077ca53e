// A linear projection of rows, without bias:  y = x W,  and backward
//
//   dx = dy W^T        dW += x^T dy
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/attention/views.h"
#include "core/base/math.h"
#include "core/model/parameters.h"
#include "core/problem/partition.h"

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

// ---
// A row of the table for each byte; backward, the rows' gradients go to the table's rows of their
// bytes. Positions come in later, by rotation (below).

// table [vocab, width], x [rows, width].
inline void embedding_forward(Index rows, Index width, const std::uint8_t* bytes,
                              const float* table, float* x) {
  for (Index row = 0; row < rows; ++row)
    std::copy_n(table + bytes[row] * width, width, x + row * width);
}

// Adds to dtable.
inline void embedding_backward(Index rows, Index width, const std::uint8_t* bytes, const float* dx,
                               float* dtable) {
  for (Index row = 0; row < rows; ++row) {
    float* const to = dtable + bytes[row] * width;
    for (Index i = 0; i < width; ++i) to[i] += dx[row * width + i];
  }
}

// ---
// Root-mean-square normalisation, row by row:
//
//   y = gain * x * r,    r = 1 / sqrt(mean of x^2 + epsilon)
//
// and backward, with r's own derivative, dr/dx = -r^3 x / width:
//
//   dx = r gain * dy - x r^3 sum(gain * dy * x) / width        dgain += sum over rows of dy * x r
//
// Sums are taken in f64.

// x, y [rows, width], apart; gain [width]; inverse_rms [rows]: r, for the backward.
void rms_norm_forward(Index rows, Index width, double epsilon, const float* x, const float* gain,
                      float* y, float* inverse_rms);

// Adds to dx [rows, width] (the residual's gradient is there already) and to dgain [width].
void rms_norm_backward(Index rows, Index width, const float* x, const float* gain,
                       const float* inverse_rms, const float* dy, float* dx, float* dgain);

// ---
// Rotary positions: the values of a query or key head are taken in pairs, and pair i of head_dim /
// 2 is turned by the angle
//
//   position * base^(-2 i / head_dim)
//
// so that a score depends on the distance of its two positions. The position is the global one: a
// rank's row 0 is turned as its place in the sequence says, whatever the partition. (By local rows,
// every rank would believe that the sequence begins with it.) The gradient is turned back.

class Rotary {
 public:
  // For the rows of one rank; head_dim is even.
  Rotary(const LocalRows& rows, Index head_dim, double base);

  // x: [batch, rows, heads, head_dim].
  void turn(Index batch, Index heads, float* x) const { turn(batch, heads, x, 1); }
  void turn_back(Index batch, Index heads, float* x) const { turn(batch, heads, x, -1); }

 private:
  void turn(Index batch, Index heads, float* x, float direction) const;

  Index rows_;
  Index pairs_;
  std::vector<float> cosine_, sine_;  // [rows, pairs]
};

// ---
// The activation of the MLP, value by value: one projection gates the other,
//
//   y = gate s * up,    s = sigmoid(gate) = 1 / (1 + e^-gate)
//
// and backward
//
//   dup = dy gate s        dgate = dy up s (1 + gate (1 - s))

void gate_forward(Index values, const float* gate, const float* up, float* y);
// Overwrites dgate and dup; each may be where dy, gate or up is.
void gate_backward(Index values, const float* gate, const float* up, const float* dy, float* dgate,
                   float* dup);

// ---
// From the projections' order, rows before heads, to attention's, heads before rows, and back.

// [batch, first, second, head_dim] -> [batch, second, first, head_dim].
inline void exchange_rows_and_heads(const AttentionParams& params, Index first, Index second,
                                    const float* from, float* to) {
  const Index d = params.head_dim;
  for (Index b = 0; b < params.batch; ++b)
    for (Index i = 0; i < first; ++i)
      for (Index j = 0; j < second; ++j, from += d)
        std::copy_n(from, d, to + ((b * second + j) * first + i) * d);
}

// ---
// How surprised the model is at the byte that follows: for a row of logits z and its target t,
//
//   loss = log(sum of e^z) - z_t,    dz = scale (softmax(z) - [t])
//
// A rank knows the losses of its own rows. Their sum over the ranks is the summed loss; the mean is
// that over the number of all rows of the batch, which every rank knows. So `scale` is 1 for a
// summed loss and 1 over that number for a mean, and in both cases the ranks' gradients add up to
// the right one, however unequal their shares are. (A mean of the ranks' own means is right for
// equal shares only: claim C44.)

// Returns the sum of the rows' losses, in nats. logits: [rows, columns]; with a `scale` other than
// 0 they become their gradient.
double cross_entropy(Index rows, Index columns, const std::uint8_t* targets, double scale,
                     float* logits);

}  // namespace ringscope
