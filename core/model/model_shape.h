// The sizes of a model, and the names, order and places of its weights, which follow from them.
#pragma once

#include <vector>

#include "core/cost/model_step.h"
#include "core/model/parameters.h"

namespace ringscope {

struct ModelShape {
  Index layers = 4;
  Index width = 128;    // of a row between the layers
  Index num_heads = 4;  // query heads
  Index num_heads_kv = 4;
  Index head_dim = 32;    // even, because rotary positions rotate pairs
  Index hidden = 344;     // of the MLP; about 8/3 of width, since the gate makes it three matrices
  Index vocab = 256;      // tokens are the bytes below it
  bool tied_head = true;  // the head uses the embedding's matrix
  double rotary_base = 10000;
  double norm_epsilon = 1e-5;

  bool operator==(const ModelShape&) const = default;
};

// Throw InputError that names the size, its value, and what is accepted.
void validate(const ModelShape& shape);

// Return the attention of every layer, in f32 and both passes, of `batch` sequences of `seqlen`
// rows that are split across a ring.
Problem attention_problem(const ModelShape& shape, Index batch, Index seqlen, MaskSpec mask,
                          PartitionKind partition, int world_size);

// Return the sizes that core/cost counts by.
inline ModelSizes sizes_of(const ModelShape& shape) {
  return {shape.width, shape.hidden, shape.vocab, shape.tied_head};
}

struct LayerWeights {
  Parameter attention_gain;     // [1, width]: gain of a norm, as is mlp_gain
  Parameter query, key, value;  // [width, heads * head_dim]
  Parameter output;             // [num_heads * head_dim, width]
  Parameter mlp_gain;
  Parameter gate, up;  // [width, hidden]
  Parameter down;      // [hidden, width]
};

struct ModelWeights {
  // Throw InputError as validate() does.
  explicit ModelWeights(const ModelShape& its_shape);

  ModelShape shape;
  ParameterLayout layout;
  Parameter embedding;  // [vocab, width]
  std::vector<LayerWeights> layers;
  Parameter final_gain;
  Parameter head;  // [vocab, width]; the embedding itself when tied
};

}  // namespace ringscope
