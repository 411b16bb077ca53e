#include "core/training/attention_layer.h"

#include <algorithm>
#include <stdexcept>

#include "core/base/clock.h"
#include "core/ring/schemes.h"

namespace ringscope {

namespace {

const Problem& checked(const Problem& problem, const Communicator& comm) {
  if (problem.world_size != comm.world_size())
    throw std::invalid_argument("the problem is dealt out to another number of ranks");
  return problem;
}

}  // namespace

ContextRing::ContextRing(const Problem& problem, Communicator& comm, WorkPulse* pulse)
    : problem_(checked(problem, comm)),
      ring_problem_(problem_.ring_problem()),
      own_comm_(comm),
      pulse_(pulse),
      memory_(problem_, comm.rank()),
      backend_(ring_problem_.params, true, &memory_.meter(), pulse),
      comm_(&comm),
      block_backend_(&backend_) {}

void ContextRing::run_over(Communicator& comm, BlockBackend& backend) {
  comm_ = &comm;
  block_backend_ = &backend;
}

void ContextRing::run_over_own() { run_over(own_comm_, backend_); }

void ContextRing::forward() {
  begin_ns_ = monotonic_ns();
  run_forward(*comm_, *block_backend_, ring_problem_, memory_);
  end_ns_ = monotonic_ns();
  seconds_.forward += static_cast<double>(end_ns_ - begin_ns_) * 1e-9;
}

KvGradient ContextRing::backward() {
  begin_ns_ = monotonic_ns();
  const KvGradient home = run_backward(*comm_, *block_backend_, ring_problem_, memory_);
  end_ns_ = monotonic_ns();
  seconds_.backward += static_cast<double>(end_ns_ - begin_ns_) * 1e-9;
  return home;
}

AttentionLayer::AttentionLayer(const LayerWeights& weights, ContextRing& ring, bool keeps)
    : weights_(weights), ring_(ring), keeps_(keeps) {
  if (!keeps) return;
  const AttentionParams& params = ring.ring_problem().params;
  const Index rows = ring.local_rows().size();
  q_ = {&ring.meter(), query_values(params, rows) * bytes_of(params.dtype)};
  kv_ = {&ring.meter(), 2 * kv_values(params, rows) * bytes_of(params.dtype)};
  out_ = {&ring.meter(), query_values(params, rows)};
  row_max_ = {&ring.meter(), row_values(params, rows)};
  row_sum_ = {&ring.meter(), row_values(params, rows)};
}

namespace {

// Copy K and V, or their gradients, to shared.keys and shared.values.
void kv_to_rows(const float* kv, Workspace& shared) {
  const AttentionParams& params = shared.ring.ring_problem().params;
  const Index heads = params.num_heads_kv, rows = shared.ring.local_rows().size();
  shared.ring.for_parts([&](const Run& part, Index at, Index size) {
    heads_to_rows(params, heads, rows, part, kv + 2 * at, shared.keys.data());
    heads_to_rows(params, heads, rows, part, kv + 2 * at + size, shared.values.data());
  });
}

}  // namespace

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
  const Run all{0, 1, rows};
  rows_to_heads(params, heads, rows, all, queries, ring.q());
  ring.for_parts([&](const Run& part, Index at, Index size) {
    const Index bytes = bytes_of(params.dtype);
    rows_to_heads(params, heads_kv, rows, part, keys, ring.kv() + 2 * at * bytes);
    rows_to_heads(params, heads_kv, rows, part, values, ring.kv() + (2 * at + size) * bytes);
  });
  ring.forward();
  if (keeps_)
    for_kept(
        [](auto& kept, const auto* in_ring) { std::copy_n(in_ring, kept.size(), kept.begin()); });
  heads_to_rows(params, heads, rows, all, ring.out(), queries);
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
  const Run all{0, 1, rows};
  heads_to_rows(params, heads, rows, all, ring.out(), queries);
  linear_backward(shared.product, store, weights_.output, tokens, queries, dy, Store::overwrite,
                  dout);
  rows_to_heads(params, heads, rows, all, dout, ring.dout());
  const KvGradient home = ring.backward();

  heads_to_rows(params, heads, rows, all, ring.dq(), queries);
  kv_to_rows(home.data, shared);
  shared.rotary.turn_back(params.batch, heads, queries);
  shared.rotary.turn_back(params.batch, heads_kv, keys);
  const auto back = [&](const Parameter& weight, const float* gradient, Store to_dx) {
    linear_backward(shared.product, store, weight, tokens, x, gradient, to_dx, dx);
  };
  back(weights_.query, queries, Store::overwrite);
  back(weights_.key, keys, Store::accumulate);
  back(weights_.value, values, Store::accumulate);
}

void AttentionLayer::recall_kv(Workspace& shared) const {
  kv_to_rows(reinterpret_cast<const float*>(keeps_ ? kv_.data() : ring_.kv()), shared);
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
