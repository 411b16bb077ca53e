// A model's sizes, and its weights as one flat array with the gradients beside it, which AdamW
// updates. A checkpoint writes the array, the ranks add up its gradients, and a test varies its
// values. The layout, the same on every rank and in every run of one shape, gives names and places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/buffer.h"
#include "core/problem/partition.h"
#include "core/tools/cost/model_step.h"
#include "core/training/matrix_product.h"

namespace ringscope {

// The place of a weight: [rows, columns] in C order, from value `offset` on.
struct Parameter {
  Index offset = 0;
  Index rows = 0;
  Index columns = 0;

  Index size() const { return rows * columns; }
};

// How a tensor group (model.h) divides a weight: not at all, which leaves all of it with every
// rank, or by its columns or rows.
enum class Split { none, columns, rows };

// A rank's place in its tensor group of `size` ranks.
struct TensorPlace {
  int rank = 0, size = 1;
};

struct NamedParameter {
  std::string name;
  Parameter place;
  // Standard deviation of the initial values, which are uniform around 0. A deviation of 0 marks a
  // gain [1, columns], which starts as ones and which weight decay leaves alone.
  double deviation = 0;
  Split split = Split::none;

  bool is_gain() const { return deviation == 0; }
  // Return where value i of a rank's part of the weight lies in the whole one.
  Index in_whole(Index i, const TensorPlace& at) const {
    if (split == Split::none || at.size == 1) return i;
    if (split == Split::rows) return at.rank * place.size() + i;
    return (i / place.columns * at.size + at.rank) * place.columns + i % place.columns;
  }
};

class ParameterLayout {
 public:
  // Append a parameter, or a rank's part of it, and return its place. deviation > 0.
  Parameter add_matrix(std::string name, Index rows, Index columns, double deviation,
                       Split split = Split::none);
  Parameter add_gain(std::string name, Index columns);

  Index size() const { return size_; }  // values in all
  const std::vector<NamedParameter>& all() const { return all_; }

  // Call f(its place in the layout of the whole model, its place here) for each value of a rank's part.
  // Return the size of the whole layout.
  template <class F>
  Index for_parts_of_whole(const TensorPlace& at, const F& f) const {
    Index whole = 0;
    for (const NamedParameter& weight : all_) {
      for (Index i = 0; i < weight.place.size(); ++i)
        f(whole + weight.in_whole(i, at), weight.place.offset + i);
      whole += weight.place.size() * (weight.split == Split::none ? 1 : at.size);
    }
    return whole;
  }

 private:
  Parameter add(NamedParameter parameter);

  std::vector<NamedParameter> all_;
  Index size_ = 0;
};

// ---
// The sizes of a model, and the names, order and places of its weights, which follow from them.

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

// Return the sizes that core/tools/cost counts by.
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

// Return the shape of what each of `tensor` ranks has: its share of the heads and of the inside of the
// MLP. Throw InputError as validate() and check_tensor_split() (rank_groups.h) do.
ModelShape share_of(const ModelShape& whole, int tensor);

struct ModelWeights {
  // Those of one of `tensor` ranks. Throw InputError as share_of() does.
  explicit ModelWeights(const ModelShape& whole, int tensor = 1);

  ModelShape shape;  // of the share
  ParameterLayout layout;
  Parameter embedding;  // [vocab, width]
  std::vector<LayerWeights> layers;
  Parameter final_gain;
  Parameter head;  // [vocab, width]; the embedding itself when tied
};

// ---

// One rank's copy of the weights, all of them or its part.
class ParameterStore {
 public:
  // Draw the values from `seed`, the same for each weight whichever rank has it. Gradients are not set.
  ParameterStore(const ParameterLayout& layout, std::uint64_t seed, MemoryMeter* meter,
                 const TensorPlace& place = {});

  Index size() const { return size_; }
  float* values() { return values_.data(); }
  const float* values() const { return values_.data(); }
  // Return the gradients of all values. One more number behind them carries the ranks' losses.
  float* gradients() { return gradients_.data(); }
  const float* gradients() const { return gradients_.data(); }
  Index gradients_and_loss() const { return gradients_.size(); }
  float& loss() { return gradients_[size_]; }
  void clear_gradients() { gradients_.fill(0); }

  const float* value(const Parameter& p) const { return values_.data() + p.offset; }
  float* gradient(const Parameter& p) { return gradients_.data() + p.offset; }
  MatrixView matrix(const Parameter& p) const { return row_major(value(p), p.rows, p.columns); }

  // Return the sum of the squares of the gradients of a run of weights without gaps.
  double squares(const Run& run) const;
  // Return whether no weight is NaN or infinite.
  bool is_finite() const;

 private:
  Index size_;
  Buffer<float> values_, gradients_;
};

// ---
// At step t, from 1 on, AdamW updates a weight w by its gradient g, with decoupled weight decay:
//
//   m = beta1 m + (1 - beta1) g            v = beta2 v + (1 - beta2) g^2
//   w -= rate (m' / (sqrt(v') + epsilon) + decay w),    m' = m / (1 - beta1^t), v' likewise
//
// (Kingma and Ba, "Adam", algorithm 1; Loshchilov and Hutter, "Decoupled Weight Decay Regularization",
// algorithm 2.) Every rank's copy of the weights stays the same, bit for bit. Gains are not decayed.

struct AdamWSettings {
  double rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.99;
  // An epsilon of 1e-8 would turn the rounding of a tiny gradient into a step as long as any, so
  // training with another world_size would drift apart.
  double epsilon = 1e-5;
  double decay = 0.01;
  // Longer gradients are scaled down to this length; 0 turns that off.
  double longest_gradient = 1;
  Index warmup_steps = 10;  // over which the rate grows to its value

  bool operator==(const AdamWSettings&) const = default;
};

// Throw InputError that names the setting, its value, and what is accepted.
void validate(const AdamWSettings& settings);

class AdamW {
 public:
  // `layout` must outlive it.
  AdamW(const ParameterLayout& layout, const AdamWSettings& settings, MemoryMeter* meter);

  // Update the weights by one step from store.gradients(), whose length, of all of them, is given.
  void update(ParameterStore& store, double length);

  // State for a checkpoint: the means of all gradients and then of their squares; and the number of
  // steps so far.
  Buffer<float>& moments() { return moments_; }
  const Buffer<float>& moments() const { return moments_; }
  Index steps() const { return steps_; }
  void set_steps(Index steps) { steps_ = steps; }

 private:
  const ParameterLayout& layout_;
  AdamWSettings settings_;
  Buffer<float> moments_;
  Index steps_ = 0;
};

}  // namespace ringscope
