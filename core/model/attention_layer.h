// Computes the two parts of a layer, attention and MLP, on one rank's rows, in buffers that they
// share.
#pragma once

#include "core/model/context_ring.h"
#include "core/model/layers.h"
#include "core/model/matrix_product.h"
#include "core/model/model_shape.h"

namespace ringscope {

// ---
// What the layers of a rank share, because they work one after the other: the ring, the rotations
// of its rows, and buffers. Nothing in the buffers lasts from one call to the next.

struct Workspace {
  // `its_ring` must outlive it and have the model's heads.
  Workspace(const ModelShape& shape, ContextRing& its_ring)
      : ring(its_ring),
        rotary(ring.local_rows(), shape.head_dim, shape.rotary_base),
        product(ring.pulse()),
        normed_gradient(&ring.meter(), ring.tokens() * shape.width),
        queries(&ring.meter(), ring.tokens() * shape.num_heads * shape.head_dim),
        query_gradients(&ring.meter(), queries.size()),
        keys(&ring.meter(), ring.tokens() * shape.num_heads_kv * shape.head_dim),
        values(&ring.meter(), keys.size()),
        hidden(&ring.meter(), ring.tokens() * shape.hidden),
        hidden_gradient(&ring.meter(), hidden.size()),
        up_gradient(&ring.meter(), hidden.size()) {}

  ContextRing& ring;
  Rotary rotary;
  MatrixProduct product;
  Buffer<float> normed_gradient;                         // [tokens, width]
  Buffer<float> queries, query_gradients, keys, values;  // [tokens, heads, head_dim]
  Buffer<float> hidden, hidden_gradient, up_gradient;    // [tokens, hidden]
};

// ---
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
//   y += (SiLU(x Wgate) * (x Wup)) Wdown       the activation is SwiGLU (layers.h)

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
