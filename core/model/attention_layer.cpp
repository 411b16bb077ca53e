#include "core/model/attention_layer.h"

#include <algorithm>

namespace ringscope {

AttentionLayer::AttentionLayer(const LayerWeights& weights, ContextRing& ring, bool keeps)
    : weights_(weights), ring_(ring), keeps_(keeps) {
  if (!keeps) return;
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
  const auto project = [&](const Parameter& weight, float* to) {
    linear_forward(shared.product, store, weight, tokens, x, Store::overwrite, to);
  };
  project(weights_.query, queries);
  project(weights_.key, keys);
  project(weights_.value, values);
  shared.rotary.turn(params.batch, heads, queries);
  shared.rotary.turn(params.batch, heads_kv, keys);
  exchange_rows_and_heads(params, rows, heads, queries, ring.q());
  exchange_rows_and_heads(params, rows, heads_kv, keys, ring.k());
  exchange_rows_and_heads(params, rows, heads_kv, values, ring.v());
  ring.forward();
  if (keeps_)
    for_kept(
        [](auto& kept, const auto* in_ring) { std::copy_n(in_ring, kept.size(), kept.begin()); });
  exchange_rows_and_heads(params, heads, rows, ring.out(), queries);
  linear_forward(shared.product, store, weights_.output, tokens, queries, Store::accumulate, y);
}

void AttentionLayer::backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                              Workspace& shared) {
  ContextRing& ring = shared.ring;
  const AttentionParams& params = ring.ring_problem().params;
  const Index rows = ring.local_rows().size(), tokens = ring.tokens();
  const Index heads = params.num_heads, heads_kv = params.num_heads_kv;
  float *const queries = shared.queries.data(), *const keys = shared.keys.data(),
               *const values = shared.values.data(), *const dout = shared.query_gradients.data();
  if (keeps_)
    for_kept([](auto& kept, auto* in_ring) { std::copy(kept.begin(), kept.end(), in_ring); });
  exchange_rows_and_heads(params, heads, rows, ring.out(), queries);
  linear_backward(shared.product, store, weights_.output, tokens, queries, dy, Store::overwrite,
                  dout);
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

void MlpLayer::expand(const ParameterStore& store, Index rows, const float* x, Workspace& shared) {
  linear_forward(shared.product, store, weights_.gate, rows, x, Store::overwrite,
                 inside_.gate.data());
  linear_forward(shared.product, store, weights_.up, rows, x, Store::overwrite, inside_.up.data());
  swiglu_forward(rows * weights_.gate.columns, inside_.gate.data(), inside_.up.data(),
                 inside_.product.data());
}

void MlpLayer::forward(const ParameterStore& store, const float* x, float* y, Workspace& shared) {
  const Index width = weights_.gate.rows;
  shared.for_pieces([&](Index first, Index rows) {
    expand(store, rows, x + first * width, shared);
    linear_forward(shared.product, store, weights_.down, rows, inside_.product.data(),
                   Store::accumulate, y + first * width);
  });
}

void MlpLayer::backward(ParameterStore& store, const float* x, const float* dy, float* dx,
                        Workspace& shared, bool again) {
  const Index width = weights_.gate.rows;
  float *const gradient = shared.gate_gradient.data(), *const up_gradient =
                                                           shared.up_gradient.data();
  shared.for_pieces([&](Index first, Index rows) {
    const float* const piece = x + first * width;
    const auto back = [&](const Parameter& weight, const float* its_gradient, Store to_dx) {
      linear_backward(shared.product, store, weight, rows, piece, its_gradient, to_dx,
                      dx + first * width);
    };
    if (again) expand(store, rows, piece, shared);
    linear_backward(shared.product, store, weights_.down, rows, inside_.product.data(),
                    dy + first * width, Store::overwrite, gradient);
    swiglu_backward(rows * weights_.gate.columns, inside_.gate.data(), inside_.up.data(), gradient,
                    gradient, up_gradient);
    back(weights_.gate, gradient, Store::overwrite);
    back(weights_.up, up_gradient, Store::accumulate);
  });
}

}  // namespace ringscope
