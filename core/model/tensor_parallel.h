// Attention whose heads are dealt out to the ranks of a TP group, while the sequence is dealt out
// to those of a CP group (rank_groups.h). Rank (cp, tp) has the rows of cp and the heads of tp:
//
//   Q, K, V = x Wq, x Wk, x Wv     its heads: columns of the projections
//   O = attention(Q, K, V)         a ring over the CP group, which has the same heads
//   y += sum over tp of O Wo       its heads: rows of the output projection
//
// so a TP group communicates once in the forward, to add up y, and once in the backward, to add up
// dx: each time a row of the model's width for each of the rank's rows. The ring's blocks are
// narrower by TP, which leaves the links as many bytes as before, over all heads. Gradients of
// weights are whole after their sum over the CP group: no other rank of the TP group has them.
#pragma once

#include "core/model/attention_layer.h"
#include "core/model/replica.h"

namespace ringscope {

// What a rank has of one attention layer: sizes and places of its weights, the same on every rank.
struct AttentionShard {
  // Throws InputError as check_tensor_heads.
  AttentionShard(const ModelShape& whole, int its_tensor_size);

  // Rank `tensor_index`'s part of the weights of a whole layer, or of their gradients: `from` is a
  // ParameterStore's array, in which they lie as `whole` says; `to`, of layout.size() values, the
  // rank's own.
  void take(const LayerWeights& whole, const float* from, int tensor_index, float* to) const;

  int tensor_size;
  ModelShape shape;  // with a rank's share of the heads, and no MLP
  ParameterLayout layout;
  LayerWeights weights;  // query, key, value, output
};

class TensorParallelAttention {
 public:
  // `ring` is of attention_params(shard.shape, batch), over the CP group; `tensor`, which must
  // outlive it, over the TP group, in which the rank's index is its place.
  TensorParallelAttention(const AttentionShard& shard, ContextRing& ring, Communicator& tensor);

  // As AttentionLayer's, with the shard's weights; x, y, dy and dx are of the model's whole width,
  // and the same on all ranks of the TP group, bit for bit.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

 private:
  AttentionLayer layer_;
  Communicator& tensor_;
  Buffer<float> share_;  // [tokens, width]: what the rank's heads give y
  RingAllReduce sum_;
};

}  // namespace ringscope
