// Attention inside a model whose sequence is dealt out to the ranks:
//
//   Q, K, V = x Wq, x Wk, x Wv        a rank's own rows; Q and K turned by their global positions
//   O = attention(Q, K, V)            over all ranks' rows: K and V go round the ring
//   y += O Wo                         own rows again
//
// Only the middle line communicates. With grouped heads K and V are narrower than Q, and so are the
// blocks that travel. Between forward and backward the layer keeps Q, K, V, O and the rows' softmax
// statistics, from which the backward ring computes the weights anew.
#pragma once

#include "core/model/workspace.h"

namespace ringscope {

class AttentionLayer {
 public:
  AttentionLayer(const LayerWeights& weights, ContextRing& ring);

  // x [tokens, width]: the rank's rows, one sequence of the batch after the other; y, of the same
  // shape, is added to. Throws RunError when a peer fails.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  // x as in the forward pass. Overwrites dx, which is not dy; adds to the weights' gradients.
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

  // K (turned) and V of the last forward pass, [batch, num_heads_kv, rows, head_dim] each.
  const float* kept_k() const { return k_.data(); }
  const float* kept_v() const { return v_.data(); }

 private:
  LayerWeights weights_;
  Buffer<float> q_, k_, v_, out_, row_max_;
  Buffer<double> row_sum_;
};

// ---
// The part of a layer in which every row is by itself, and so every rank with its rows:
//
//   y += (gate(x Wgate) * (x Wup)) Wdown
//
// with the activation of layers.h.

class MlpLayer {
 public:
  MlpLayer(const LayerWeights& weights, ContextRing& ring);

  // As AttentionLayer's.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

 private:
  LayerWeights weights_;
  Buffer<float> gate_, up_;  // [tokens, hidden], kept for the backward pass
};

}  // namespace ringscope
