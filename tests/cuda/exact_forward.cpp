#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {

namespace {

// Which pairs the case's steps visit.
class VisitedPairs {
 public:
  explicit VisitedPairs(const StepCase& tested)
      : tested_(tested),
        spec_(MaskSpec::parse(tested.mask)),
        mask_(spec_.for_seqlen(tested.seqlen)),
        query_rank_(tested.seqlen_q()),
        key_rank_(tested.seqlen) {
    const Partition partition{tested.partition, tested.seqlen, tested.world_size};
    for (int rank = 0; rank < tested.world_size; ++rank) {
      const LocalRows keys = partition.rows_of(rank), queries = tested.queries_of(rank);
      for (Index i = 0; i < keys.size(); ++i) key_rank_[keys.global_position(i)] = rank;
      for (Index i = 0; i < queries.size(); ++i) query_rank_[queries.global_position(i)] = rank;
    }
  }
  bool operator()(Index i, Index j) const {
    const int step = (query_rank_[i] - key_rank_[j] + tested_.world_size) % tested_.world_size;
    return mask_.allows(tested_.q_offset + i, j) &&
           (tested_.only_step < 0 || tested_.only_step == step);
  }

 private:
  const StepCase tested_;
  const MaskSpec spec_;
  const Mask mask_;
  std::vector<int> query_rank_, key_rank_;
};

// A weight as it is multiplied.
template <class Real>
Real rounded_to(DType weights, Real value) {
  return weights == DType::f32 ? value
                               : static_cast<Real>(round_to(weights, static_cast<float>(value)));
}

template <class Real>
Real dot(const float* a, const float* b, Index width) {
  Real sum = 0;
  for (Index x = 0; x < width; ++x) sum += static_cast<Real>(a[x]) * b[x];
  return sum;
}

// With all arithmetic in Real, and P rounded to `weights` before it is multiplied.
template <class Real>
ExactForward forward(const StepCase& tested, const Tensors<float>& in, DType weights) {
  const VisitedPairs visited(tested);
  const Index rows_q = tested.seqlen_q(), rows = tested.batch * tested.heads * rows_q;
  const Index d = tested.head_dim, d_v = tested.value_dim();
  const Real scale = tested.softmax_scale();
  ExactForward exact{std::vector<double>(rows * d_v), std::vector<double>(rows),
                     std::vector<float>(rows), std::vector<double>(rows)};
  std::vector<Real> scores(tested.seqlen), out(d_v);
  for (Index row = 0; row < rows; ++row) {
    const Index head = row / rows_q, i = row % rows_q;
    const Index first_key = head / (tested.heads / tested.heads_kv) * tested.seqlen;
    const bool has_sink = !tested.sinks.empty();
    const Real sink = has_sink ? tested.sinks[head % tested.heads] : 0;
    Real largest = has_sink ? sink : -std::numeric_limits<Real>::infinity();
    for (Index j = 0; j < tested.seqlen; ++j) {
      if (!visited(i, j)) continue;
      scores[j] = scale * dot<Real>(&in.q[row * d], &in.k[(first_key + j) * d], d);
      largest = std::max(largest, scores[j]);
    }
    exact.row_max[row] = static_cast<float>(largest);
    Real sum = has_sink ? std::exp(sink - exact.row_max[row]) : Real{0};
    std::fill(out.begin(), out.end(), Real{0});
    for (Index j = 0; j < tested.seqlen; ++j) {
      if (!visited(i, j)) continue;
      const Real p = std::exp(scores[j] - exact.row_max[row]), weight = rounded_to(weights, p);
      sum += p;
      for (Index x = 0; x < d_v; ++x) out[x] += weight * in.v[(first_key + j) * d_v + x];
    }
    for (Index x = 0; x < d_v; ++x) exact.out[row * d_v + x] = sum == 0 ? 0 : out[x] / sum;
    exact.row_sum[row] = sum;
    exact.lse[row] = sum == 0 ? largest : exact.row_max[row] + std::log(sum);
  }
  return exact;
}

// Likewise, and dS rounded as P is.
template <class Real>
Gradients backward(const StepCase& tested, const Tensors<float>& in, const ExactForward& forward,
                   DType weights) {
  const VisitedPairs visited(tested);
  const Index rows_q = tested.seqlen_q(), rows = tested.batch * tested.heads * rows_q;
  const Index d = tested.head_dim, d_v = tested.value_dim();
  const Real scale = tested.softmax_scale();
  std::vector<Real> dq(in.q.size(), 0), dk(in.k.size(), 0), dv(in.v.size(), 0);
  for (Index row = 0; row < rows; ++row) {
    const Index i = row % rows_q;
    const Index first_key = row / rows_q / (tested.heads / tested.heads_kv) * tested.seqlen;
    const float *const q = &in.q[row * d], *const dout = &in.dout[row * d_v];
    double delta = 0;
    for (Index x = 0; x < d_v; ++x) delta += forward.out[row * d_v + x] * dout[x];
    for (Index j = 0; j < tested.seqlen; ++j) {
      if (!visited(i, j)) continue;
      const Index key = (first_key + j) * d, value = (first_key + j) * d_v;
      const Real score = dot<Real>(q, &in.k[key], d), dp = dot<Real>(dout, &in.v[value], d_v);
      const Real p = std::exp(score * scale - static_cast<Real>(forward.row_max[row])) *
                     static_cast<Real>(1 / forward.row_sum[row]);
      const Real ds = rounded_to(weights, p * (dp - static_cast<Real>(delta)));
      const Real p_rounded = rounded_to(weights, p);
      for (Index x = 0; x < d; ++x) {
        dq[row * d + x] += ds * in.k[key + x];
        dk[key + x] += ds * q[x];
      }
      for (Index x = 0; x < d_v; ++x) dv[value + x] += p_rounded * dout[x];
    }
  }
  for (Real& value : dq) value *= scale;
  for (Real& value : dk) value *= scale;
  const auto doubles = [](const std::vector<Real>& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  return {doubles(dq), doubles(dk), doubles(dv)};
}

}  // namespace

Gradients exact_backward(const StepCase& tested, const Tensors<float>& in) {
  return backward<double>(tested, in, exact_forward(tested, in), DType::f32);
}

Gradients plain_backward(const StepCase& tested, const Tensors<float>& in) {
  return backward<float>(tested, in, exact_forward(tested, in), tested.dtype);
}

ExactForward exact_forward(const StepCase& tested, const Tensors<float>& in) {
  return forward<double>(tested, in, DType::f32);
}

ExactForward plain_forward(const StepCase& tested, const Tensors<float>& in) {
  return forward<float>(tested, in, tested.dtype);
}

}  // namespace ringscope::cuda
