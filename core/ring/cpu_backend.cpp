#include "core/ring/cpu_backend.h"

#include "core/attention/large_values.h"
#include "core/attention/online_softmax.h"

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
  for (Index i = 0; i < block_values(params_, into.rows); ++i) into.data[i] += from.data[i];
  return nullptr;
}

Completion CpuBackend::merge(const StepInfo&, const QueryBlock& q, const SoftmaxState& into,
                             const SoftmaxState& from, const Completion& after) {
  wait_for(after);
  const Index d = params_.value_dim();
  for (Index row = 0; row < row_values(params_, q.rows); ++row) {
    float* const out = into.out_accum + row * d;
    const float* const other = from.out_accum + row * d;
    const float new_max = std::fmax(into.row_max[row], from.row_max[row]);
    double mine = rescale_factor<double>(into.row_max[row], new_max);
    double theirs = rescale_factor<double>(from.row_max[row], new_max);
    // If one of them is lowered, so is their sum.
    const bool is_mine = is_lowered(into.row_sum[row]), is_theirs = is_lowered(from.row_sum[row]);
    if (is_mine && !is_theirs) theirs *= lowered_weight(params_.seqlen);
    if (is_theirs && !is_mine) mine *= lowered_weight(params_.seqlen);
    into.row_sum[row] = mine * into.row_sum[row] + theirs * from.row_sum[row];
    for (Index x = 0; x < d; ++x)
      out[x] = static_cast<float>(mine) * out[x] + static_cast<float>(theirs) * other[x];
    into.row_max[row] = new_max;
  }
  return nullptr;
}

Completion CpuBackend::add_dq(const StepInfo&, const QueryBlock& q, const BackwardState& into,
                              const BackwardState& from, const Completion& after) {
  wait_for(after);
  for (Index i = 0; i < query_values(params_, q.rows); ++i) into.dq[i] += from.dq[i];
  return nullptr;
}

Completion CpuBackend::finish_backward(const StepInfo&, const QueryBlock& q,
                                       const BackwardState& state, const Completion& after) {
  wait_for(after);
  ringscope::finish_backward(params_, q, state);
  return nullptr;
}

}  // namespace ringscope
