// Attention whose heads are split across a TP group, while the sequence is split across a CP group
// (rank_groups.h); the MLP is not split here. Rank (cp, tp) has the rows of cp and the heads of tp:
//
//   Q, K, V = x Wq, x Wk, x Wv     its heads: columns of the projections
//   O = attention(Q, K, V)         a ring over the CP group, which has the same heads
//   y += sum over tp of O Wo       its heads: rows of the output projection
//
// So a TP group communicates once forward, to add up y, and once backward, to add up dx. Each sum
// has one row of the model's width for each of the rank's rows. The ring's blocks are narrower by
// TP, so over all heads the links carry as many bytes as before. The sum over the CP group
// completes the weights' gradients, because no other rank of the TP group has the same weights.
#pragma once

#include "core/model/attention_layer.h"
#include "core/model/replica.h"

namespace ringscope {

// One rank's part of an attention layer: sizes and places of its weights, the same on every rank.
struct AttentionShard {
  // Throw InputError as check_tensor_heads() does.
  AttentionShard(const ModelShape& whole, int its_tensor_size);

  // Copy rank `tensor_index`'s part of a whole layer's weights, or of their gradients. `from` is a
  // ParameterStore's array, where they lie as `whole` says; `to` is the rank's own, of
  // layout.size() values.
  void take(const LayerWeights& whole, const float* from, int tensor_index, float* to) const;

  int tensor_size;
  ModelShape shape;  // has a rank's share of the heads, and no MLP
  ParameterLayout layout;
  LayerWeights weights;  // query, key, value, output
};

class TensorParallelAttention {
 public:
  // `ring` has an attention_problem() of shard.shape and runs over the CP group. `tensor`, which
  // must outlive it, runs over the TP group, where the rank's index is its place.
  TensorParallelAttention(const AttentionShard& shard, ContextRing& ring, Communicator& tensor);

  // These do what AttentionLayer's do, with the shard's weights. x, y, dy and dx have the model's
  // whole width, and the same bits on all ranks of the TP group.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

 private:
  AttentionLayer layer_;
  Communicator& tensor_;
  Buffer<float> share_;  // [tokens, width]: what the rank's heads add to y
  RingAllReduce sum_;
};

}  // namespace ringscope
