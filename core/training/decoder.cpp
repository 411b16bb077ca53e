#include "core/training/decoder.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/training/layers.h"

namespace ringscope {
namespace {

// Return the rank of a sequence's last row, which is the last of that rank's rows.
int rank_of_last(const Partition& partition) {
  for (int rank = 0; rank < partition.world_size; ++rank) {
    const LocalRows rows = partition.rows_of(rank);
    if (rows.rows_below(partition.seqlen - 1) < rows.size()) return rank;
  }
  return 0;
}

}  // namespace

Decoder::Decoder(const ModelWeights& weights, const ParameterStore& store, Model& model,
                 const RingProblem& prompt, const Mask& mask, Communicator& comm,
                 MemoryMeter* meter)
    : weights_(weights),
      store_(store),
      params_(prompt.params),
      prompt_(prompt.partition),
      mask_(mask),
      comm_(comm),
      batch_(params_.batch),
      position_(prompt_.seqlen),
      attention_(params_, comm.world_size(), meter),
      stream_(meter, batch_ * weights.shape.width),
      normed_(meter, stream_.size()),
      rms_(meter, batch_),
      query_(meter, query_values(params_, 1)),
      key_(meter, kv_values(params_, 1)),
      value_(meter, key_.size()),
      out_(meter, query_.size()),
      hidden_(meter, batch_ * weights.shape.hidden),
      up_(meter, hidden_.size()),
      logits_(meter, batch_ * weights.shape.vocab) {
  shards_.reserve(weights.layers.size());
  for (Index layer = 0; layer < weights.shape.layers; ++layer) {
    shards_.emplace_back(params_, prompt_, comm.rank(), meter);
    const auto [k, v] = model.recall_kv(layer);
    shards_.back().fill(k, v);
  }
}

void Decoder::share_logits(const Model& model) {
  const Index vocab = weights_.shape.vocab, rows = prompt_.rows_of(comm_.rank()).size();
  const int n = comm_.world_size(), owner = rank_of_last(prompt_);
  const int place = (comm_.rank() - owner + n) % n;  // in the ring, from the owner on
  if (place == 0)
    for (Index b = 0; b < batch_; ++b)
      std::copy_n(model.logits() + ((b + 1) * rows - 1) * vocab, vocab, logits_.data() + b * vocab);
  for (int step = 0; step + 1 < n; ++step) {
    Exchange hop{.payload = Payload::dkv, .step = step, .send_owner = owner, .recv_owner = owner};
    if (place == step) hop.send = logits_.data(), hop.send_bytes = logits_.bytes();
    if (place == step + 1) hop.recv = logits_.data(), hop.recv_bytes = logits_.bytes();
    with_step_in_errors(comm_.rank(), step, [&] { wait_for(comm_.exchange(hop, {})); });
  }
}

void Decoder::norm(const Parameter& gain) {
  rms_norm_forward(batch_, weights_.shape.width, weights_.shape.norm_epsilon, stream_.data(),
                   store_.value(gain), normed_.data(), rms_.data());
}

void Decoder::project(const Parameter& weight, Buffer<float>& to) {
  linear_forward(product_, store_, weight, batch_, normed_.data(), Store::overwrite, to.data());
}

// [decode_step
void Decoder::step(const std::uint8_t* bytes) {
  const Index width = weights_.shape.width;
  embedding_forward(batch_, width, bytes, store_.value(weights_.embedding), stream_.data());
  for (Index i = 0; i < weights_.shape.layers; ++i) {
    attend(weights_.layers[i], shards_[i]);
    feed_forward(weights_.layers[i]);
  }
  norm(weights_.final_gain);
  product_(Store::overwrite, row_major(normed_.data(), batch_, width),
           store_.matrix(weights_.head).transposed(), logits_.data());
  ++position_;
}

void Decoder::attend(const LayerWeights& layer, KvShard& shard) {
  norm(layer.attention_gain);
  project(layer.query, query_);
  project(layer.key, key_);
  project(layer.value, value_);
  const Rotary rotary({{{position_, 1, 1}, {position_ + 1, 1, 0}}, false}, params_.head_dim,
                      weights_.shape.rotary_base);
  rotary.turn(batch_, params_.num_heads, query_.data());
  rotary.turn(batch_, params_.num_heads_kv, key_.data());

  shard.append(key_.data(), value_.data());
  attention_(comm_, shard, mask_.allowed_keys(position_), query_.data(), out_.data(), nullptr);
  linear_forward(product_, store_, layer.output, batch_, out_.data(), Store::accumulate,
                 stream_.data());
}
// decode_step]

void Decoder::feed_forward(const LayerWeights& layer) {
  norm(layer.mlp_gain);
  project(layer.gate, hidden_);
  project(layer.up, up_);
  swiglu_forward(hidden_.size(), hidden_.data(), up_.data(), hidden_.data());
  linear_forward(product_, store_, layer.down, batch_, hidden_.data(), Store::accumulate,
                 stream_.data());
}

}  // namespace ringscope
