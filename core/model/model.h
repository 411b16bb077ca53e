// A byte-level transformer on one rank's rows: embedding, layers, norm, head. A layer is
//
//   x += attention(norm(x))        x += mlp(norm(x))
//
// Everything but the ring inside attention works on single rows. So a rank computes the losses of
// its own rows, and the gradients of all rows' losses with respect to its rows. Its gradients of
// the weights are only a share: the shares of all ranks add up to the whole (replica.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/attention_layer.h"
#include "core/ring/rank_memory.h"

namespace ringscope {

// One rank's data for a training step: for each of its rows, the byte there and the one after it.
struct RankBytes {
  std::vector<std::uint8_t> inputs, targets;  // [batch, rows]
};

// Return the bytes on the rank's rows from `windows` [batch, seqlen + 1], the same on every rank.
RankBytes take_rows(const std::uint8_t* windows, Index batch, Index seqlen, const LocalRows& rows);

// Return the bill of a model's buffers for `tokens` rows, besides those of its ring and weights.
// The letters are those of core/cost/model_step.h.
std::vector<MemoryPart> model_memory(const ModelShape& shape, Index tokens);

class Model {
 public:
  // `weights` and `ring` must outlive it. The ring has an attention_problem() of weights.shape.
  Model(const ModelWeights& weights, ContextRing& ring);

  // Return the sum of the losses of this rank's rows, in nats. Throw RunError when a peer fails.
  double loss(const ParameterStore& store, const RankBytes& bytes);
  // Return the same, and add to store.gradients() this rank's share of the gradients of `scale`
  // times the summed loss of all ranks. `scale` is not 0.
  double loss_and_gradients(ParameterStore& store, const RankBytes& bytes, double scale);

  // Return the rank's logits [tokens, vocab], or after loss_and_gradients() their gradients.
  const float* logits() const { return logits_.data(); }
  const AttentionLayer& attention(Index layer) const { return layers_[layer].attention; }
  // Return the FLOPs of all products with weights so far.
  double product_flops() const { return shared_.product.flops(); }

 private:
  // What a layer keeps for the backward pass, besides what its parts keep themselves.
  struct Layer {
    Layer(const LayerWeights& its_weights, Index width, ContextRing& ring);

    LayerWeights weights;
    Buffer<float> input, attention_input, attention_rms;  // x, norm(x), and 1 / rms of x
    AttentionLayer attention;
    Buffer<float> middle, mlp_input, mlp_rms;
    MlpLayer mlp;
  };

  // Announce a part of `layer` to the recording, if there is one.
  void begins(ModelPart part, Pass pass, const Layer& layer) const {
    shared_.ring.begins(part, pass, &layer - layers_.data());
  }
  void run_layers(const ParameterStore& store, const RankBytes& bytes);
  void norm(const ParameterStore& store, const Parameter& gain, const Buffer<float>& x,
            Buffer<float>& y, Buffer<float>& rms) const;
  // Add to dx the gradient that `dnormed` gives the norm's input.
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
