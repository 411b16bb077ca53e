#include "core/model/attention_layer.h"

#include <algorithm>

#include "core/model/layers.h"

namespace ringscope {

namespace {

template <class T>
void copy_to(const Buffer<T>& from, T* to) {
  std::copy(from.begin(), from.end(), to);
}
template <class T>
void copy_from(const T* from, Buffer<T>& to) {
  std::copy_n(from, to.size(), to.begin());
}

}  // namespace

AttentionLayer::AttentionLayer(const LayerWeights& weights, ContextRing& ring) : weights_(weights) {
  const AttentionParams& params = ring.ring_problem().params;
  const Index rows = ring.local_rows().size();
  q_ = {&ring.meter(), query_values(params, rows)};
  k_ = {&ring.meter(), kv_values(params, rows)};
  v_ = {&ring.meter(), kv_values(params, rows)};
  out_ = {&ring.meter(), query_values(params, rows)};
  row_max_ = {&ring.meter(), row_values(params, rows)};
  row_sum_ = {&ring.meter(), row_values(params, rows)};
}

void AttentionLayer::forward(const ParameterStore& store, const float* x, float* y,
                             Workspace& shared) {
  ContextRing& ring = shared.ring;
  const AttentionParams& params = ring.ring_problem().params;
  const Index rows = ring.local_rows().size(), tokens = ring.tokens();
  const Index heads = params.num_heads, heads_kv = params.num_heads_kv;
  float *const queries = shared.queries.data(), *const keys = shared.keys.data(),
               *const values = shared.values.data();
  // [attention_layer
  const auto project = [&](const Parameter& weight, float* to) {
    linear_forward(shared.product, store, weight, tokens, x, Store::overwrite, to);
  };
  // [projections
  project(weights_.query, queries);
  project(weights_.key, keys);
  project(weights_.value, values);
  shared.rotary.turn(params.batch, heads, queries);
  shared.rotary.turn(params.batch, heads_kv, keys);
  // projections]
  exchange_rows_and_heads(params, rows, heads, queries, q_.data());
  exchange_rows_and_heads(params, rows, heads_kv, keys, k_.data());
  exchange_rows_and_heads(params, rows, heads_kv, values, v_.data());

  copy_to(q_, ring.q());
  copy_to(k_, ring.k());
  copy_to(v_, ring.v());
  ring.forward();
  copy_from(ring.out(), out_);
  copy_from(ring.row_max(), row_max_);
  copy_from(ring.row_sum(), row_sum_);

  exchange_rows_and_heads(params, heads, rows, out_.data(), queries);
  linear_forward(shared.product, store, weights_.output, tokens, queries, Store::accumulate, y);
  // attention_layer]
}

void AttentionLayer::backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                              Workspace& shared) {
  ContextRing& ring = shared.ring;
  const AttentionParams& params = ring.ring_problem().params;
  const Index rows = ring.local_rows().size(), tokens = ring.tokens();
  const Index heads = params.num_heads, heads_kv = params.num_heads_kv;
  float *const queries = shared.queries.data(), *const keys = shared.keys.data(),
               *const values = shared.values.data(), *const dout = shared.query_gradients.data();
  exchange_rows_and_heads(params, heads, rows, out_.data(), queries);
  linear_backward(shared.product, store, weights_.output, tokens, queries, dy, Store::overwrite,
                  dout);

  copy_to(q_, ring.q());
  copy_to(k_, ring.k());
  copy_to(v_, ring.v());
  copy_to(out_, ring.out());
  copy_to(row_max_, ring.row_max());
  copy_to(row_sum_, ring.row_sum());
  exchange_rows_and_heads(params, rows, heads, dout, ring.dout());
  const KvGradient home = ring.backward();

  exchange_rows_and_heads(params, heads, rows, ring.dq(), queries);
  exchange_rows_and_heads(params, heads_kv, rows, home.data, keys);
  exchange_rows_and_heads(params, heads_kv, rows, home.data + kv_values(params, rows), values);
  shared.rotary.turn_back(params.batch, heads, queries);
  shared.rotary.turn_back(params.batch, heads_kv, keys);
  const auto back = [&](const Parameter& weight, const float* gradient, Store to_dx) {
    linear_backward(shared.product, store, weight, tokens, x, gradient, to_dx, dx);
  };
  back(weights_.query, queries, Store::overwrite);
  back(weights_.key, keys, Store::accumulate);
  back(weights_.value, values, Store::accumulate);
}

MlpLayer::MlpLayer(const LayerWeights& weights, ContextRing& ring)
    : weights_(weights),
      gate_(&ring.meter(), ring.tokens() * weights.gate.columns),
      up_(&ring.meter(), gate_.size()) {}

void MlpLayer::forward(const ParameterStore& store, const float* x, float* y, Workspace& shared) {
  const Index tokens = shared.ring.tokens();
  float* const hidden = shared.hidden.data();
  linear_forward(shared.product, store, weights_.gate, tokens, x, Store::overwrite, gate_.data());
  linear_forward(shared.product, store, weights_.up, tokens, x, Store::overwrite, up_.data());
  swiglu_forward(gate_.size(), gate_.data(), up_.data(), hidden);
  linear_forward(shared.product, store, weights_.down, tokens, hidden, Store::accumulate, y);
}

void MlpLayer::backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                        Workspace& shared) {
  const Index tokens = shared.ring.tokens();
  float *const hidden = shared.hidden.data(), *const gradient = shared.hidden_gradient.data(),
               *const up_gradient = shared.up_gradient.data();
  swiglu_forward(gate_.size(), gate_.data(), up_.data(), hidden);
  linear_backward(shared.product, store, weights_.down, tokens, hidden, dy, Store::overwrite,
                  gradient);
  swiglu_backward(gate_.size(), gate_.data(), up_.data(), gradient, gradient, up_gradient);
  linear_backward(shared.product, store, weights_.gate, tokens, x, gradient, Store::overwrite, dx);
  linear_backward(shared.product, store, weights_.up, tokens, x, up_gradient, Store::accumulate,
                  dx);
}

}  // namespace ringscope
