// The operations of a layer on single rows, forward and backward; none of them communicates. The
// first is a linear projection without bias, y = x W, with the gradients
//
//   dx = dy W^T        dW += x^T dy
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/attention/views.h"
#include "core/base/math.h"
#include "core/problem/partition.h"
#include "core/training/weights.h"

namespace ringscope {

// Project x [rows, weight.rows] to y [rows, weight.columns], which is overwritten or added to.
inline void linear_forward(MatrixProduct& product, const ParameterStore& store,
                           const Parameter& weight, Index rows, const float* x, Store to_y,
                           float* y) {
  product(to_y, row_major(x, rows, weight.rows), store.matrix(weight), y);
}

// Overwrite dx [rows, weight.rows] or add to it, and add to the weight's gradient.
inline void linear_backward(MatrixProduct& product, ParameterStore& store, const Parameter& weight,
                            Index rows, const float* x, const float* dy, Store to_dx, float* dx) {
  product(Store::accumulate, row_major(x, rows, weight.rows).transposed(),
          row_major(dy, rows, weight.columns), store.gradient(weight));
  product(to_dx, row_major(dy, rows, weight.columns), store.matrix(weight).transposed(), dx);
}

// ---
// The embedding gives each byte its row of a table. Positions come in later, by rotation (below).

// Look up x [rows, width] in table [vocab, width].
inline void embedding_forward(Index rows, Index width, const std::uint8_t* bytes,
                              const float* table, float* x) {
  for (Index row = 0; row < rows; ++row)
    std::copy_n(table + bytes[row] * width, width, x + row * width);
}

// Add the gradient of each row to the row of its byte in dtable.
inline void embedding_backward(Index rows, Index width, const std::uint8_t* bytes, const float* dx,
                               float* dtable) {
  for (Index row = 0; row < rows; ++row) {
    float* const to = dtable + bytes[row] * width;
    for (Index i = 0; i < width; ++i) to[i] += dx[row * width + i];
  }
}

// ---
// Root-mean-square normalisation scales every row by itself:
//
//   y = gain * x * r,    r = 1 / sqrt(mean of x^2 + epsilon)
//
// Backward, r has its own derivative, dr/dx = -r^3 x / width, so
//
//   dx = r gain * dy - x r^3 sum(gain * dy * x) / width        dgain += sum over rows of dy * x r
//
// Sums are taken in f64.

// Normalise x to y, apart and both [rows, width]. gain: [width]. inverse_rms [rows] keeps each r.
void rms_norm_forward(Index rows, Index width, double epsilon, const float* x, const float* gain,
                      float* y, float* inverse_rms);

// Add to dx [rows, width], which already holds the residual's gradient, and to dgain [width].
void rms_norm_backward(Index rows, Index width, const float* x, const float* gain,
                       const float* inverse_rms, const float* dy, float* dx, float* dgain);

// ---
// Rotary positions: pair i of the head_dim / 2 pairs of values in a query or key head is rotated by
//
//   position * base^(-2 i / head_dim)
//
// so a score depends on the distance between its two positions, which are global ones, whatever the
// partition. The gradient is rotated back.
class Rotary {
 public:
  // Compute the angles for the rows of one rank. head_dim is even.
  Rotary(const LocalRows& rows, Index head_dim, double base, MemoryMeter* meter = nullptr);

  // Rotate x [batch, rows, heads, head_dim] in place.
  void turn(Index batch, Index heads, float* x) const { turn(batch, heads, x, 1); }
  void turn_back(Index batch, Index heads, float* x) const { turn(batch, heads, x, -1); }

 private:
  void turn(Index batch, Index heads, float* x, float direction) const;

  Index rows_;
  Index pairs_;
  Buffer<float> cosine_, sine_;  // [rows, pairs]
};

// ---
// In the activation of the MLP one projection gates the other, value by value:
//
//   y = gate s * up,    s = sigmoid(gate) = 1 / (1 + e^-gate)
//   dup = dy gate s,    dgate = dy up s (1 + gate (1 - s))

void swiglu_forward(Index values, const float* gate, const float* up, float* y);
// Overwrite dgate and dup, each of which may alias dy, gate or up.
void swiglu_backward(Index values, const float* gate, const float* up, const float* dy,
                     float* dgate, float* dup);

// ---
// The projections order values by row and then by head, attention by head and then by row; and attention
// has its operands in its storage type. `run` says which of a rank's `rows` are meant:
//
//   by row [batch, rows, heads, head_dim]  <->  by head [batch, heads, run.count, head_dim]

// Call f(by row, by head) with the offsets of each head_dim values.
template <class F>
void for_rows_and_heads(const AttentionShape& shape, Index heads, Index rows, const Run& run,
                        const F& f) {
  const Index d = shape.head_dim;
  for (Index b = 0; b < shape.batch; ++b)
    for (Index h = 0; h < heads; ++h)
      for (Index i = 0; i < run.count; ++i)
        f(((b * rows + run.position(i)) * heads + h) * d, ((b * heads + h) * run.count + i) * d);
}

inline void rows_to_heads(const AttentionParams& params, Index heads, Index rows, const Run& run,
                          const float* from, std::byte* to) {
  visit_dtype(params.dtype, [&]<class T>(T) {
    for_rows_and_heads(params, heads, rows, run, [&](Index by_row, Index by_head) {
      T* const values = reinterpret_cast<T*>(to) + by_head;
      for (Index i = 0; i < params.head_dim; ++i) values[i] = from_float<T>(from[by_row + i]);
    });
  });
}

inline void heads_to_rows(const AttentionShape& shape, Index heads, Index rows, const Run& run,
                          const float* from, float* to) {
  for_rows_and_heads(shape, heads, rows, run, [&](Index by_row, Index by_head) {
    std::copy_n(from + by_head, shape.head_dim, to + by_row);
  });
}

// ---
// The cross entropy tells how surprised the model is at the next byte. For a row of logits z and
// its target t it is
//
//   loss = log(sum of e^z) - z_t,    dz = scale (softmax(z) - [t])
//
// A rank knows the losses of its own rows. `scale` is 1 for a summed loss, and for a mean 1 over
// the number of rows of the batch, which every rank knows. So the ranks' gradients add up to the
// right one, however unequal their shares are. (A mean of the ranks' own means is right only for
// equal shares: claim C44.)

// Return the sum of `loss`, that of the rows before, and of the rows' losses, in nats. With a
// `scale` other than 0, the logits [rows, columns] become their gradient.
double cross_entropy(Index rows, Index columns, const std::uint8_t* targets, double scale,
                     float* logits, double loss = 0);

}  // namespace ringscope
