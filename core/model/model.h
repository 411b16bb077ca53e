// A byte-level transformer on one rank's rows: embedding, layers, norm, head. A layer is
//
//   x += attention(norm(x))        x += mlp(norm(x))
//
// and all of it but the ring inside attention works on rows by themselves, so a rank computes its
// own rows' losses, and the gradients that all rows' losses have through its rows. The gradients of
// the weights are this rank's share: the ranks' shares add up to the whole (replica.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/attention_layer.h"

namespace ringscope {

// What a rank trains on in one step: for each of its rows the byte there and the one after it.
struct RankBytes {
  std::vector<std::uint8_t> inputs, targets;  // [batch, rows]
};

// `windows`: [batch, seqlen + 1], the same on every rank, which takes what is on its rows.
RankBytes take_rows(const std::uint8_t* windows, Index batch, Index seqlen, const LocalRows& rows);

class Model {
 public:
  // `weights` and `ring` must outlive it; the ring is of attention_params(weights.shape, batch).
  Model(const ModelWeights& weights, ContextRing& ring);

  // Returns the sum of the losses of this rank's rows, in nats. Throws RunError when a peer fails.
  double loss(const ParameterStore& store, const RankBytes& bytes);
  // The same, and adds to store.gradients() this rank's share of the gradients of `scale` times the
  // summed loss of all ranks. scale is not 0.
  double loss_and_gradients(ParameterStore& store, const RankBytes& bytes, double scale);

  // The logits of the rank's rows, [tokens, vocab], after loss(); gradients after the other.
  const float* logits() const { return logits_.data(); }
  const AttentionLayer& attention(Index layer) const { return layers_[layer].attention; }
  // Of all products with weights so far.
  double product_flops() const { return shared_.product.flops(); }

 private:
  // What a layer keeps for the backward pass beside its parts' own.
  struct Layer {
    Layer(const LayerWeights& its_weights, Index width, ContextRing& ring);

    LayerWeights weights;
    Buffer<float> input, attention_input, attention_rms;  // x, norm(x), 1 / its root mean square
    AttentionLayer attention;
    Buffer<float> middle, mlp_input, mlp_rms;
    MlpLayer mlp;
  };

  // For a recording, if there is one.
  void begins(ModelPart part, Pass pass, const Layer& layer) const {
    shared_.ring.begins(part, pass, &layer - layers_.data());
  }
  void run_layers(const ParameterStore& store, const RankBytes& bytes);
  void norm(const ParameterStore& store, const Parameter& gain, const Buffer<float>& x,
            Buffer<float>& y, Buffer<float>& rms) const;
  // dx += the norm's share of `dnormed`.
  void norm_backward(ParameterStore& store, const Parameter& gain, const Buffer<float>& x,
                     const Buffer<float>& rms, const float* dnormed, float* dx) const;

  const ModelWeights& weights_;
  Index tokens_;
  Workspace shared_;
  std::vector<Layer> layers_;
  Buffer<float> stream_,
      stream_gradient_;  // [tokens, width]: x between the layers, and its gradient
  Buffer<float> head_input_, final_rms_;
  Buffer<float> logits_;
};

}  // namespace ringscope
