// A model that goes on with a text, byte by byte, on the ranks that have read its beginning.
//
//   prefill    the model's forward pass over the prompt, K and V round the ring; what each layer
//              has of keys and values stays where it is and becomes its shard
//   decode     for each new byte, in each layer: every rank computes the row (weights and the row
//              are on all of them), the one whose turn it is keeps its key and value, all attend
//              what they have, and the results are merged
//
// The row takes the same way through the same products as in a prefill, and those give a row the
// same bits whatever rows are beside it (matrix_product.h). So a step differs from the prefill's
// row by the rounding inside attention alone. All ranks have the same bits at every point, and need
// no message to agree on the query or on the byte that is drawn.
//
// On the wire: once the logits behind the prompt, from the rank that holds its last row; then a
// merge for every layer and byte (merge_cost()).
#pragma once

#include <cstdint>
#include <vector>

#include "core/decode/decode_attention.h"
#include "core/model/matrix_product.h"
#include "core/model/model.h"

namespace ringscope {

// For Model::loss() over a prompt, [batch, seqlen] bytes: what a rank's rows hold. Nothing is
// compared with, so the targets are zeros.
RankBytes prompt_rows(const std::uint8_t* prompt, Index batch, Index seqlen, const LocalRows& rows);

// Throws InputError unless no position of `mask`'s text attends later ones that are behind a prompt
// of `prompt` bytes: only then are the prompt's rows what they will be in the longer text.
void require_no_later_keys(const Mask& mask, Index prompt);

class Decoder {
 public:
  // Takes over the keys and values that the model's last forward pass, over `prompt`, left on this
  // rank. `mask` is the text's, for as many positions as it may come to; within the prompt it says
  // what the prompt's does. weights, store, comm, meter (which may be null) and what the mask points
  // to must outlive it; `model` need not. Sends nothing yet. Throws InputError as
  // require_no_later_keys.
  Decoder(const ModelWeights& weights, const ParameterStore& store, const Model& model,
          const RingProblem& prompt, const Mask& mask, Communicator& comm, MergeKind kind,
          MemoryMeter* meter);

  // The logits behind the prompt, from `model`, which is the constructor's, on the rank that has its
  // last row, to all. All ranks call it, once and before all below. Throws RunError when a peer
  // fails; a hop may be at work on the decoder's memory then, until the communicator ends. (So the
  // constructor does not do it: what it throws from is gone at once.)
  void share_logits(const Model& model);

  // Of the byte that follows, [batch, vocab], the same bits on every rank.
  const float* logits() const { return logits_.data(); }
  // The position that the byte will have.
  Index position() const { return position_; }
  // `bytes`, one for each sequence of the batch, is what follows: goes on by one position. All
  // ranks call it with the same bytes. Throws RunError when a peer fails, InputError when the text
  // is as long as its mask.
  void step(const std::uint8_t* bytes);

  const KvShard& shard(Index layer) const { return shards_[layer]; }

 private:
  void attend(const LayerWeights& layer, KvShard& shard);
  void feed_forward(const LayerWeights& layer);
  void norm(const Parameter& gain);

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
  Buffer<float> stream_, normed_, rms_;      // [batch, width], and a number a row
  Buffer<float> query_, key_, value_, out_;  // [batch, heads, head_dim]
  Buffer<float> hidden_, up_;                // [batch, hidden]
  Buffer<float> logits_;
};

}  // namespace ringscope
