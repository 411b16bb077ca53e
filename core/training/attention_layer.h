// Computes the two parts of a layer, attention and MLP, on one rank's rows, in buffers that they
// share.
#pragma once

#include "core/training/context_ring.h"
#include "core/training/layers.h"
#include "core/training/matrix_product.h"
#include "core/training/weights.h"

namespace ringscope {

// What the layers of a rank share, because they work one after the other: the ring, the rotations
// of its rows, and buffers. Nothing in the buffers lasts from one call to the next.
struct Workspace {
  // `its_ring` must outlive it and have the model's heads.
  // The MLP works on its rows in pieces of `its_piece`. The head uses the copy of a product, too.
  Workspace(const ModelShape& shape, ContextRing& its_ring, Index its_piece)
      : ring(its_ring),
        piece(its_piece),
        rotary(ring.local_rows(), shape.head_dim, shape.rotary_base, &ring.meter()),
        product(ring.pulse(), &ring.meter(),
                max_of(max_of(shape.vocab, shape.width),
                       max_of(shape.hidden, shape.num_heads * shape.head_dim)),
                ring.ring_problem().params.dtype),
        normed_gradient(&ring.meter(), ring.tokens() * shape.width),
        queries(&ring.meter(), ring.tokens() * shape.num_heads * shape.head_dim),
        query_gradients(&ring.meter(), queries.size()),
        keys(&ring.meter(), ring.tokens() * shape.num_heads_kv * shape.head_dim),
        values(&ring.meter(), keys.size()),
        gate_gradient(&ring.meter(), piece * shape.hidden),
        up_gradient(&ring.meter(), gate_gradient.size()) {}

  // Call f(first, rows) for one piece of the rows after the other.
  template <class F>
  void for_pieces(const F& f) const {
    for (Index first = 0; first < ring.tokens(); first += piece)
      f(first, min_of(piece, ring.tokens() - first));
  }

  ContextRing& ring;
  Index piece;
  Rotary rotary;
  MatrixProduct product;
  Buffer<float> normed_gradient;                         // [tokens, width]
  Buffer<float> queries, query_gradients, keys, values;  // [tokens, heads, head_dim]
  Buffer<float> gate_gradient, up_gradient;              // [piece, hidden]
};

// ---
// The attention and the MLP of a layer, on one rank's rows; norms and residual are in model.h. With
// the sequence split across the ranks, attention is
//
//   Q, K, V = x Wq, x Wk, x Wv        own rows; Q and K are rotated by their global positions
//   O = attention(Q, K, V)            all ranks' rows: K and V travel around the ring
//   y += O Wo                         own rows again
//
// Only the middle line communicates. For the backward ring, which recomputes the attention weights,
// the layer keeps Q, K, V, O and the softmax statistics of its rows, unless the ring's own memory
// still has them, because no other layer has used it since.
class AttentionLayer {
 public:
  // `keeps` says whether another layer uses the ring between forward() and backward().
  AttentionLayer(const LayerWeights& weights, ContextRing& ring, bool keeps = true);

  // Add the output for x to y, both [tokens, width]: the rank's rows, one sequence of the batch
  // after the other. Throw RunError when a peer fails.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  // Overwrite dx, which must not be dy, and add to the weights' gradients. x is that of forward().
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

  // Copy K (rotated) and V of the last forward pass to shared.keys and shared.values; attention in f32.
  void recall_kv(Workspace& shared) const;

 private:
  // Call f(what is kept, its place in the ring's memory).
  template <class F>
  void for_kept(const F& f) {
    f(q_, ring_.q()), f(kv_, ring_.kv());
    f(out_, ring_.out()), f(row_max_, ring_.row_max()), f(row_sum_, ring_.row_sum());
  }

  LayerWeights weights_;
  ContextRing& ring_;
  bool keeps_;
  Buffer<std::byte> q_, kv_;  // in the storage type
  Buffer<float> out_, row_max_;
  Buffer<double> row_sum_;
};

// ---
// The MLP of a layer. It treats every row by itself, so a rank needs only its own rows:
//
//   y += (SiLU(x Wgate) * (x Wup)) Wdown       the activation is SwiGLU (layers.h)
//
// So it can also take them piece by piece, the blockwise feedforward that ring attention comes with
// (S3): what is inside it exists for one piece at a time, and the backward pass computes it again.

// What the backward pass needs, of one piece.
struct MlpInside {
  Buffer<float> gate, up, product;  // [piece, hidden]
};

class MlpLayer {
 public:
  // `inside` must outlive it.
  MlpLayer(const LayerWeights& weights, MlpInside& inside) : weights_(weights), inside_(inside) {}

  // These have the parameters of AttentionLayer's. With `again`, backward() computes the inside
  // anew, which it must where another piece has used it since.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared, bool again);

 private:
  void expand(const ParameterStore& store, Index rows, const float* x, Workspace& shared);

  LayerWeights weights_;
  MlpInside& inside_;
};

}  // namespace ringscope
