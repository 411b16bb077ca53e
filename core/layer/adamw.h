// Adam with decoupled weight decay, weight by weight, at step t from 1 on, for the gradient g:
//
//   m = beta1 m + (1 - beta1) g            v = beta2 v + (1 - beta2) g^2
//   w -= rate (m' / (sqrt(v') + epsilon) + decay w),    m' = m / (1 - beta1^t), v' likewise
//
// (Kingma and Ba, "Adam", algorithm 1; Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization", algorithm 2.) Every rank updates its copy of all weights from the same
// gradients, so the copies stay the same, bit for bit. Gains are not decayed.
#pragma once

#include <vector>

#include "core/layer/parameters.h"

namespace ringscope {

struct AdamWSettings {
  double rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.99;
  // Where a gradient is next to nothing, an epsilon of 1e-8 would turn its rounding into steps as
  // long as any, and training apart with another world_size.
  double epsilon = 1e-5;
  double decay = 0.01;
  // The gradients are scaled down to this length when they are longer; 0: never.
  double longest_gradient = 1;
  Index warmup_steps = 10;  // over which the rate grows to its value

  bool operator==(const AdamWSettings&) const = default;
};

// Throws InputError that names the setting, its value, and what is accepted.
void validate(const AdamWSettings& settings);

class AdamW {
 public:
  // `layout` must outlive it.
  AdamW(const ParameterLayout& layout, const AdamWSettings& settings, MemoryMeter* meter);

  // One step by store.gradients(). Returns their length.
  double update(ParameterStore& store);
  // Whether the last update, if any, has left no weight that is NaN or infinite.
  bool weights_are_finite() const { return weights_are_finite_; }

  // What a checkpoint has to keep: m and then v, [2, layout.size()], and the number of steps so
  // far.
  Buffer<float>& moments() { return moments_; }
  const Buffer<float>& moments() const { return moments_; }
  Index steps() const { return steps_; }
  void set_steps(Index steps) { steps_ = steps; }

 private:
  const ParameterLayout& layout_;
  AdamWSettings settings_;
  Buffer<float> moments_;
  Index steps_ = 0;
  bool weights_are_finite_ = true;
};

}  // namespace ringscope
