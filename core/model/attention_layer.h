// The attention and the MLP of a layer, on one rank's rows; norms and residual are in model.h. With
// the sequence split across the ranks, attention is
//
//   Q, K, V = x Wq, x Wk, x Wv        own rows; Q and K are rotated by their global positions
//   O = attention(Q, K, V)            all ranks' rows: K and V travel around the ring
//   y += O Wo                         own rows again
//
// Only the middle line communicates. With grouped heads, K and V are narrower than Q, and so are
// the blocks that travel. For the backward ring, which recomputes the attention weights, the layer
// keeps Q, K, V, O and the softmax statistics of its rows.
#pragma once

#include "core/model/workspace.h"

namespace ringscope {

class AttentionLayer {
 public:
  AttentionLayer(const LayerWeights& weights, ContextRing& ring);

  // Add the output for x to y, both [tokens, width]: the rank's rows, one sequence of the batch
  // after the other. Throw RunError when a peer fails.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  // Overwrite dx, which must not be dy, and add to the weights' gradients. x is that of forward().
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

  // Return K (rotated) or V of the last forward pass, [batch, num_heads_kv, rows, head_dim].
  const float* kept_k() const { return k_.data(); }
  const float* kept_v() const { return v_.data(); }

 private:
  LayerWeights weights_;
  Buffer<float> q_, k_, v_, out_, row_max_;
  Buffer<double> row_sum_;
};

// ---
// The MLP of a layer. It treats every row by itself, so a rank needs only its own rows:
//
//   y += (gate(x Wgate) * (x Wup)) Wdown       gate: the activation of layers.h

class MlpLayer {
 public:
  MlpLayer(const LayerWeights& weights, ContextRing& ring);

  // These have the parameters of AttentionLayer's.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

 private:
  LayerWeights weights_;
  Buffer<float> gate_, up_;  // [tokens, hidden], kept for the backward pass
};

}  // namespace ringscope
