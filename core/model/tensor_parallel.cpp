#include "core/model/tensor_parallel.h"

#include <algorithm>

#include "core/model/rank_groups.h"

namespace ringscope {
namespace {

ModelShape shape_of_shard(const ModelShape& whole, int tensor_size) {
  validate(whole);
  check_tensor_heads(whole.num_heads, whole.num_heads_kv, tensor_size);
  ModelShape shape = whole;
  shape.num_heads /= tensor_size;
  shape.num_heads_kv /= tensor_size;
  shape.hidden = 0;
  return shape;
}

}  // namespace

AttentionShard::AttentionShard(const ModelShape& whole, int its_tensor_size)
    : tensor_size(its_tensor_size), shape(shape_of_shard(whole, its_tensor_size)) {
  const Index q_width = shape.num_heads * shape.head_dim;
  const Index kv_width = shape.num_heads_kv * shape.head_dim;
  // The deviation of 1 is not used, because the values are taken from those of a whole layer.
  weights.query = layout.add_matrix("query", shape.width, q_width, 1);
  weights.key = layout.add_matrix("key", shape.width, kv_width, 1);
  weights.value = layout.add_matrix("value", shape.width, kv_width, 1);
  weights.output = layout.add_matrix("output", q_width, shape.width, 1);
}

// [shard
void AttentionShard::take(const LayerWeights& whole, const float* from, int tensor_index,
                          float* to) const {
  const auto columns = [&](const Parameter& all, const Parameter& part) {
    for (Index row = 0; row < part.rows; ++row)
      std::copy_n(from + all.offset + row * all.columns + tensor_index * part.columns, part.columns,
                  to + part.offset + row * part.columns);
  };
  columns(whole.query, weights.query);
  columns(whole.key, weights.key);
  columns(whole.value, weights.value);
  std::copy_n(from + whole.output.offset + tensor_index * weights.output.size(),
              weights.output.size(), to + weights.output.offset);
}
// shard]

TensorParallelAttention::TensorParallelAttention(const AttentionShard& shard, ContextRing& ring,
                                                 Communicator& tensor)
    : layer_(shard.weights, ring),
      tensor_(tensor),
      share_(&ring.meter(), ring.tokens() * shard.shape.width),
      sum_(share_.size(), tensor.world_size(), &ring.meter()) {}

void TensorParallelAttention::forward(const ParameterStore& store, const float* x, float* y,
                                      Workspace& shared) {
  share_.fill(0);
  layer_.forward(store, x, share_.data(), shared);
  sum_.add_up(tensor_, share_.data());
  for (Index i = 0; i < share_.size(); ++i) y[i] += share_[i];
}

void TensorParallelAttention::backward(ParameterStore& store, const float* x, const float* dy,
                                       float* dx, Workspace& shared) {
  layer_.backward(store, x, dy, dx, shared);
  sum_.add_up(tensor_, dx);
}

}  // namespace ringscope
