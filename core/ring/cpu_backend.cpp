#include "core/ring/cpu_backend.h"

namespace ringscope {

Completion CpuBackend::begin(const QueryBlock& q, const SoftmaxState& state) {
  begin_attention(params_, q, state);
  return nullptr;
}

Completion CpuBackend::attend(const StepInfo&, const Region& region, const QueryBlock& q,
                              const KvBlock& block, const SoftmaxState& state,
                              const Completion& after) {
  wait_for(after);
  last_stats_ = attend_block(params_, region, q, block, state, scratch_);
  return nullptr;
}

Completion CpuBackend::finish(const QueryBlock& q, const SoftmaxState& state) {
  finish_attention(params_, q, state);
  return nullptr;
}

Completion CpuBackend::begin_backward(const QueryBlock& q, const BackwardState& state) {
  ringscope::begin_backward(params_, q, state);
  return nullptr;
}

Completion CpuBackend::attend_backward(const StepInfo&, const Region& region, const QueryBlock& q,
                                       const KvBlock& block, const BackwardState& state,
                                       const KvGradient& gradient, const Completion& after) {
  wait_for(after);
  last_stats_ = attend_block_backward(params_, region, q, block, state, gradient, scratch_);
  return nullptr;
}

Completion CpuBackend::add(const StepInfo&, const KvGradient& into, const KvGradient& from,
                           const Completion& after) {
  wait_for(after);
  for (Index i = 0; i < 2 * kv_values(params_, into.rows); ++i) into.data[i] += from.data[i];
  return nullptr;
}

Completion CpuBackend::finish_backward(const StepInfo&, const QueryBlock& q,
                                       const BackwardState& state, const Completion& after) {
  wait_for(after);
  ringscope::finish_backward(params_, q, state);
  return nullptr;
}

}  // namespace ringscope
