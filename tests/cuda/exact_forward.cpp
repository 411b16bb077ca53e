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
        rank_of_(tested.seqlen) {
    const Partition partition{tested.partition, tested.seqlen, tested.world_size};
    for (int rank = 0; rank < tested.world_size; ++rank)
      for (Index i = 0; i < partition.rows_of(rank).size(); ++i)
        rank_of_[partition.rows_of(rank).global_position(i)] = rank;
  }
  bool operator()(Index i, Index j) const {
    const int step = (rank_of_[i] - rank_of_[j] + tested_.world_size) % tested_.world_size;
    return mask_.allows(i, j) && (tested_.only_step < 0 || tested_.only_step == step);
  }

 private:
  const StepCase tested_;
  const MaskSpec spec_;
  const Mask mask_;
  std::vector<int> rank_of_;
};

// With all arithmetic in Real, and P and dS rounded to `weights` before they are multiplied.
template <class Real>
Gradients backward(const StepCase& tested, const Tensors<float>& in, const ExactForward& forward,
                   DType weights) {
  const VisitedPairs visited(tested);
  const Index heads = tested.batch * tested.heads, seqlen = tested.seqlen, d = tested.head_dim;
  const Index group = tested.heads / tested.heads_kv;
  const Real scale = tested.softmax_scale();
  const auto rounded = [&](Real value) {
    return weights == DType::f32 ? value
                                 : static_cast<Real>(round_to(weights, static_cast<float>(value)));
  };
  std::vector<Real> dq(in.q.size(), 0), dk(in.k.size(), 0), dv(in.v.size(), 0);
  for (Index row = 0; row < heads * seqlen; ++row) {
    const Index i = row % seqlen, first_key = row / seqlen / group * seqlen;
    const float *const q = &in.q[row * d], *const dout = &in.dout[row * d];
    double delta = 0;
    for (Index x = 0; x < d; ++x) delta += forward.out[row * d + x] * dout[x];
    for (Index j = 0; j < seqlen; ++j) {
      if (!visited(i, j)) continue;
      const Index key = (first_key + j) * d;
      Real score = 0, dp = 0;
      for (Index x = 0; x < d; ++x) {
        score += static_cast<Real>(q[x]) * in.k[key + x];
        dp += static_cast<Real>(dout[x]) * in.v[key + x];
      }
      const Real p = std::exp(score * scale - static_cast<Real>(forward.row_max[row])) *
                     static_cast<Real>(1 / forward.row_sum[row]);
      const Real ds = rounded(p * (dp - static_cast<Real>(delta))), p_rounded = rounded(p);
      for (Index x = 0; x < d; ++x) {
        dq[row * d + x] += ds * in.k[key + x];
        dk[key + x] += ds * q[x];
        dv[key + x] += p_rounded * dout[x];
      }
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
  const VisitedPairs visited(tested);
  const Index heads = tested.batch * tested.heads, seqlen = tested.seqlen, d = tested.head_dim;
  const Index group = tested.heads / tested.heads_kv;
  const double scale = tested.softmax_scale();
  ExactForward exact{std::vector<double>(heads * seqlen * d, 0.0),
                     std::vector<double>(heads * seqlen), std::vector<float>(heads * seqlen),
                     std::vector<double>(heads * seqlen)};
  std::vector<double> scores(seqlen);
  for (Index row = 0; row < heads * seqlen; ++row) {
    const Index i = row % seqlen, first_key = row / seqlen / group * seqlen;
    double largest = -std::numeric_limits<double>::infinity();
    for (Index j = 0; j < seqlen; ++j) {
      if (!visited(i, j)) continue;
      double dot = 0;
      for (Index x = 0; x < d; ++x)
        dot += static_cast<double>(in.q[row * d + x]) * in.k[(first_key + j) * d + x];
      scores[j] = scale * dot;
      largest = std::max(largest, scores[j]);
    }
    exact.row_max[row] = static_cast<float>(largest);
    double sum = 0;
    double* const out = &exact.out[row * d];
    for (Index j = 0; j < seqlen; ++j) {
      if (!visited(i, j)) continue;
      const double p = std::exp(scores[j] - exact.row_max[row]);
      sum += p;
      for (Index x = 0; x < d; ++x) out[x] += p * in.v[(first_key + j) * d + x];
    }
    for (Index x = 0; x < d; ++x) out[x] = sum == 0 ? 0 : out[x] / sum;
    exact.row_sum[row] = sum;
    exact.lse[row] = sum == 0 ? largest : exact.row_max[row] + std::log(sum);
  }
  return exact;
}

}  // namespace ringscope::cuda
