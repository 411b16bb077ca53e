#include "core/layer/mlp_layer.h"

#include "core/layer/gate.h"
#include "core/layer/linear.h"

namespace ringscope {

MlpLayer::MlpLayer(const LayerWeights& weights, ContextRing& ring)
    : weights_(weights),
      gate_(&ring.meter(), ring.tokens() * weights.gate.columns),
      up_(&ring.meter(), gate_.size()) {}

void MlpLayer::forward(const ParameterStore& store, const float* x, float* y, Workspace& shared) {
  const Index tokens = shared.ring.tokens();
  float* const hidden = shared.hidden.data();
  linear_forward(shared.product, store, weights_.gate, tokens, x, Store::overwrite, gate_.data());
  linear_forward(shared.product, store, weights_.up, tokens, x, Store::overwrite, up_.data());
  gate_forward(gate_.size(), gate_.data(), up_.data(), hidden);
  linear_forward(shared.product, store, weights_.down, tokens, hidden, Store::accumulate, y);
}

void MlpLayer::backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                        Workspace& shared) {
  const Index tokens = shared.ring.tokens();
  float *const hidden = shared.hidden.data(), *const gradient = shared.hidden_gradient.data(),
               *const up_gradient = shared.up_gradient.data();
  gate_forward(gate_.size(), gate_.data(), up_.data(), hidden);
  linear_backward(shared.product, store, weights_.down, tokens, hidden, dy, Store::overwrite,
                  gradient);
  gate_backward(gate_.size(), gate_.data(), up_.data(), gradient, gradient, up_gradient);
  linear_backward(shared.product, store, weights_.gate, tokens, x, gradient, Store::overwrite, dx);
  linear_backward(shared.product, store, weights_.up, tokens, x, up_gradient, Store::accumulate,
                  dx);
}

}  // namespace ringscope
