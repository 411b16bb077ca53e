// A model that continues a text, byte by byte, on the ranks that have read its beginning. It
// doesn't choose the bytes (generate.h).
//
//   prefill    the model's forward pass over the prompt, with K and V in the ring; the keys and
//              values of each layer stay where they are and become its shard
//   decode     for each new byte, in each layer: every rank computes the row (all have the weights
//              and the row), the position's home rank keeps its key and value, all ranks attend
//              what they have, and the results are merged
//
// The row goes through the same products as in a prefill, which give it the same bits whatever rows
// are beside it (matrix_product.h). So a step differs from the prefill's row only by rounding
// inside attention, and all ranks have the same bits at every point, without messages to agree on
// them.
//
// Messages carry once the logits behind the prompt, around the ring from the rank of its last row,
// and then a merge for every layer and byte (merge_cost()).
#pragma once

#include <cstdint>
#include <vector>

#include "core/training/decode_attention.h"
#include "core/training/matrix_product.h"
#include "core/training/model.h"

namespace ringscope {

class Decoder {
 public:
  // Take over the keys and values that the model's last forward pass, over `prompt`, left on this
  // rank. `mask` is for the longest text that this may become; within the prompt it is the
  // prompt's, and beyond it no position attends later ones. All but `model` must outlive it; meter
  // may be null. Send nothing.
  Decoder(const ModelWeights& weights, const ParameterStore& store, Model& model,
          const RingProblem& prompt, const Mask& mask, Communicator& comm, MemoryMeter* meter);

  // Send the logits behind the prompt from the rank of its last row to all. `model` is the
  // constructor's. All ranks call it, once and before all below. Throw RunError when a peer fails;
  // a hop may then use the decoder's memory until the communicator ends. (So the constructor does
  // not do it: when it throws, its object is gone at once.)
  void share_logits(const Model& model);

  // Return the logits of the next byte, [batch, vocab], the same bits on every rank.
  const float* logits() const { return logits_.data(); }
  // Return the position of the next byte.
  Index position() const { return position_; }
  // Go on by one position with `bytes`, one for each sequence of the batch. All ranks call it with
  // the same bytes, within the mask's positions. Throw RunError when a peer fails.
  void step(const std::uint8_t* bytes);

  const KvShard& shard(Index layer) const { return shards_[layer]; }

 private:
  void attend(const LayerWeights& layer, KvShard& shard);
  void feed_forward(const LayerWeights& layer);
  void norm(const Parameter& gain);
  void project(const Parameter& weight, Buffer<float>& to);

  const ModelWeights& weights_;
  const ParameterStore& store_;
  AttentionParams params_;
  Partition prompt_;
  Mask mask_;
  Communicator& comm_;
  Index batch_;
  Index position_;
  std::vector<KvShard> shards_;  // by layer
  DecodeAttention attention_;
  MatrixProduct product_;
  Buffer<float> stream_, normed_, rms_;      // [batch, width], and one number per row
  Buffer<float> query_, key_, value_, out_;  // [batch, heads, head_dim]
  Buffer<float> hidden_, up_;                // [batch, hidden]
  Buffer<float> logits_;
};

}  // namespace ringscope
