// The part of a layer in which every row is by itself, and so every rank with its rows:
//
//   y += (gate(x Wgate) * (x Wup)) Wdown
//
// with the activation of gate.h.
#pragma once

#include "core/layer/workspace.h"

namespace ringscope {

class MlpLayer {
 public:
  MlpLayer(const LayerWeights& weights, ContextRing& ring);

  // As AttentionLayer's.
  void forward(const ParameterStore& store, const float* x, float* y, Workspace& shared);
  void backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                Workspace& shared);

 private:
  LayerWeights weights_;
  Buffer<float> gate_, up_;  // [tokens, hidden], kept for the backward pass
};

}  // namespace ringscope
