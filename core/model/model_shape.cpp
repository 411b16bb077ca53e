#include "core/model/model_shape.h"

#include <fmt/format.h>

#include <cmath>

#include "core/problem/shape.h"

namespace ringscope {

void validate(const ModelShape& shape) {
  constexpr Index kMost = 1 << 16;
  require_between("layers", shape.layers, 0, 1 << 10);
  require_between("width", shape.width, 1, kMost);
  require_between("heads", shape.num_heads, 1, kMost);
  require_between("heads-kv", shape.num_heads_kv, 1, kMost);
  require_between("head-dim", shape.head_dim, 2, kMost);
  require_between("hidden", shape.hidden, 1, kMost);
  require_between("vocab", shape.vocab, 1, 256);
  if (shape.num_heads % shape.num_heads_kv != 0)
    throw InputError(fmt::format("heads-kv: {} given, a divisor of heads ({}) accepted",
                                 shape.num_heads_kv, shape.num_heads));
  if (shape.num_heads * shape.head_dim > kMost)
    throw InputError(fmt::format("heads x head-dim: {} given, at most {} accepted",
                                 shape.num_heads * shape.head_dim, kMost));
  if (shape.head_dim % 2 != 0)
    throw InputError(fmt::format("head-dim: {} given, an even number accepted", shape.head_dim));
  if (!(shape.rotary_base > 1) || !(shape.norm_epsilon > 0))
    throw InputError(
        fmt::format("rotary-base, norm-epsilon: {}, {} given, above 1 and above 0 "
                    "accepted",
                    shape.rotary_base, shape.norm_epsilon));
}

Problem attention_problem(const ModelShape& shape, Index batch, Index seqlen, MaskSpec mask,
                          PartitionKind partition, int world_size) {
  return {.shape = {batch, shape.num_heads, shape.num_heads_kv, seqlen, shape.head_dim},
          .mask = std::move(mask),
          .partition = partition,
          .world_size = world_size,
          .backward = true};
}

ModelWeights::ModelWeights(const ModelShape& its_shape) : shape(its_shape) {
  validate(shape);
  const Index q_width = shape.num_heads * shape.head_dim;
  const Index kv_width = shape.num_heads_kv * shape.head_dim;
  // A projection of `inputs` values of variance 1 gives values of variance 1. What is added to the
  // residual is smaller, so that all layers together add about as much as the embedding.
  const auto of_inputs = [](Index inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
  const double added = 1 / std::sqrt(2.0 * static_cast<double>(max_of(shape.layers, 1)));
  // Logits are products of a normalised row with rows of the head.
  const double of_head = 0.5 * of_inputs(shape.width);
  embedding = layout.add_matrix("embedding", shape.vocab, shape.width, of_head);
  for (Index i = 0; i < shape.layers; ++i) {
    const auto name = [i](const char* of) { return fmt::format("layer.{}.{}", i, of); };
    LayerWeights& layer = layers.emplace_back();
    layer.attention_gain = layout.add_gain(name("attention_norm"), shape.width);
    const double in = of_inputs(shape.width);
    layer.query = layout.add_matrix(name("query"), shape.width, q_width, in);
    layer.key = layout.add_matrix(name("key"), shape.width, kv_width, in);
    layer.value = layout.add_matrix(name("value"), shape.width, kv_width, in);
    layer.output = layout.add_matrix(name("output"), q_width, shape.width,
                                     added * of_inputs(q_width) * of_head);
    layer.mlp_gain = layout.add_gain(name("mlp_norm"), shape.width);
    layer.gate = layout.add_matrix(name("gate"), shape.width, shape.hidden, in);
    layer.up = layout.add_matrix(name("up"), shape.width, shape.hidden, in);
    layer.down = layout.add_matrix(name("down"), shape.hidden, shape.width,
                                   added * of_inputs(shape.hidden) * of_head);
  }
  final_gain = layout.add_gain("final_norm", shape.width);
  head = shape.tied_head ? embedding : layout.add_matrix("head", shape.vocab, shape.width, of_head);
}

}  // namespace ringscope
