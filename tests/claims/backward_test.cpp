// Gradients: the formulas and listings of S1's backward pass, tried in f64 on a small problem.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/claims/claim.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope::claims {
namespace {

using Vector = std::vector<double>;

constexpr Index kRows = 8, kDim = 3;
constexpr double kScale = 0.7;
const AttentionShape kShape{1, 1, 1, kRows, kDim};
const Mask kCausal{.seqlen = kRows, .causal = true};

double dot(const Vector& a, Index i, const Vector& b, Index j) {
  double sum = 0;
  for (Index x = 0; x < kDim; ++x) sum += a[i * kDim + x] * b[j * kDim + x];
  return sum;
}

// S1's backward pass, in which one thing may be done otherwise.
enum class Way { as_written, by_lse, without_delta, block_lse, sum_for_lse };

struct Gradients {
  Vector dq, dk, dv;
};

// Return P and the gradients from recomputed scores. Each block has half of the keys.
Gradients s1_backward(const Tensors<double>& in, Way way) {
  const NaiveResult<double> forward = naive(kShape, kCausal, kScale, in);
  Gradients g{Vector(in.q.size()), Vector(in.q.size()), Vector(in.q.size())};
  for (Index i = 0; i < kRows; ++i) {
    Vector s(kRows, -kInfinity);
    for (Index j = 0; j <= i; ++j) s[j] = kScale * dot(in.q, i, in.k, j);
    double m = -kInfinity, l = 0;
    for (const double x : s) m = std::max(m, x);
    for (const double x : s) l += std::exp(x - m);
    for (const Index first : {Index{0}, kRows / 2}) {
      const Index last = first + kRows / 2;
      double block_sum = 0;
      for (Index j = first; j < last; ++j) block_sum += std::exp(s[j]);
      const double delta = way == Way::without_delta ? 0 : dot(in.dout, i, forward.out, i);
      for (Index j = first; j < last && j <= i; ++j) {
        const double p = way == Way::by_lse        ? std::exp(s[j] - forward.lse[i])
                         : way == Way::block_lse   ? std::exp(s[j]) / block_sum
                         : way == Way::sum_for_lse ? std::exp(s[j] - l)
                                                   : std::exp(s[j] - m) / l;
        const double ds = p * (dot(in.dout, i, in.v, j) - delta);
        for (Index x = 0; x < kDim; ++x) {
          g.dq[i * kDim + x] += kScale * ds * in.k[j * kDim + x];
          g.dk[j * kDim + x] += kScale * ds * in.q[i * kDim + x];
          g.dv[j * kDim + x] += p * in.dout[i * kDim + x];
        }
      }
    }
  }
  return g;
}

Tensors<double> inputs() { return converted<double>(random_tensors(kShape, 18)); }

// Return the gradient of sum(dout * out) for each value of Q, K and V.
Gradients finite_differences(Tensors<double> in) {
  const auto loss = [&] {
    const Vector out = naive(kShape, kCausal, kScale, in).out;
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * in.dout[i];
    return sum;
  };
  const auto slopes = [&](Vector& tensor) {
    Vector result;
    for (double& x : tensor) {
      const double at = x;
      x = at + 1e-5;
      const double above = loss();
      x = at - 1e-5;
      result.push_back((above - loss()) / 2e-5);
      x = at;
    }
    return result;
  };
  return {slopes(in.q), slopes(in.k), slopes(in.v)};
}

double distance(const Gradients& a, const Gradients& b) {
  return std::max(
      {max_abs_error(a.dq, b.dq), max_abs_error(a.dk, b.dk), max_abs_error(a.dv, b.dv)});
}

Gradients of_naive() {
  const NaiveResult<double> result = naive(kShape, kCausal, kScale, inputs());
  return {result.dq, result.dk, result.dv};
}

// Return how many contributions to the gradient of its own block a rank has after the backward
// pass, as a mean over ranks. Labels are passed on by hand: at step t rank r adds its share for the
// block of (r - t) to the accumulator that it has, which then moves on by `direction`.
double contributions_home(int n, int direction, int hops) {
  std::vector<std::vector<int>> accumulator(static_cast<std::size_t>(n));  // owners added up in it
  for (int step = 0; step < n; ++step) {
    for (int rank = 0; rank < n; ++rank) accumulator[rank].push_back((rank - step + n) % n);
    if (step >= hops) continue;
    auto moved = accumulator;
    for (int rank = 0; rank < n; ++rank) moved[(rank + direction + n) % n] = accumulator[rank];
    accumulator = moved;
  }
  double home = 0;
  for (int rank = 0; rank < n; ++rank)
    for (const int owner : accumulator[rank]) home += owner == rank ? 1 : 0;
  return home / n;
}

CLAIM(C16, GradientsTravelWithTheirBlock, wrong, "S1", "part two, 8.2 and 8.3") {
  Claim claim{
      "In the backward pass the accumulators of dK and dV travel against the direction of K and V, "
      "and are home after N steps.",
      "An accumulator that travels the other way meets a different block at every step, and adds "
      "up gradients of all of them. With the N - 1 hops of the listing it ends one rank after its "
      "start, and of the N shares that belong there it has {0}, {1}, {2} and {3}, for 2, 3, 4 and "
      "8 ranks; with N hops it is back at its start, with {4} of 8. It must travel with its block, "
      "in the same direction, and make one hop more than K and V: N hops."};
  for (const int n : {2, 3, 4, 8})
    claim.figures.push_back(Figure("shares of its own block that a rank ends up with, as listed, " +
                                       std::to_string(n) + " ranks",
                                   contributions_home(n, -1, n - 1), exactly(n % 2),
                                   {"with the block, N hops", contributions_home(n, 1, n)}, n));
  claim.figures.push_back(Figure("the same, 8 ranks, N hops", contributions_home(8, -1, 8),
                                 exactly(2), {"with the block", contributions_home(8, 1, 8)}, 8));
  claim.figures.push_back(Figure("with the block, N hops, 8 ranks", contributions_home(8, 1, 8),
                                 exactly(8),
                                 {"with the block, N - 1 hops", contributions_home(8, 1, 7)}));
  return claim;
}

CLAIM(C17, GradientFormulasAgreeWithFiniteDifferences, holds, "S1", "part two, 8.1") {
  const Gradients truth = finite_differences(inputs());
  Gradients unscaled = of_naive();
  for (double& x : unscaled.dq) x /= kScale;
  return {
      "dS = P∘(dP - rowsum(dO∘O)), dQ = dS K scale, dK = dS^T Q scale, dV = P^T dO (∘ multiplies "
      "element by element).",
      "They agree with finite differences of the loss, and this project's f64 gradients with both.",
      {Figure("largest difference of the formulas from finite differences, f64",
              distance(s1_backward(inputs(), Way::as_written), truth), at_most(1e-8),
              {"without rowsum(dO∘O)", distance(s1_backward(inputs(), Way::without_delta), truth)},
              0, Shown::bound),
       Figure("the same of naive attention's gradients", distance(of_naive(), truth), at_most(1e-8),
              {"dQ without the scale", distance(unscaled, truth)}, 0, Shown::bound)}};
}

CLAIM(C18, BackwardNeedsOneNumberARow, holds, "S1", "part two, 8.2 and 12.3") {
  return {
      "The backward pass needs Q, K, V, O, and m and l of every row; P is computed anew.",
      "Log-sum-exp alone can stand for m and l. It must be that of the whole row: with a block's "
      "own, the weights of every block would add up to 1.",
      {Figure("largest difference with m and l, f64",
              distance(s1_backward(inputs(), Way::as_written), of_naive()), at_most(1e-13),
              {"the block's own lse", distance(s1_backward(inputs(), Way::block_lse), of_naive())},
              0, Shown::bound),
       Figure("the same with lse alone", distance(s1_backward(inputs(), Way::by_lse), of_naive()),
              at_most(1e-13),
              {"the block's own lse", distance(s1_backward(inputs(), Way::block_lse), of_naive())},
              0, Shown::bound)}};
}

// Take a layer whose weight is one number: Q = K = V = w x. Return the derivative of the loss for
// it, added up from the ranks' shares, over the true one. Rows are dealt out in contiguous blocks
// of `shares`.
double gradient_over_truth(const std::vector<Index>& shares, bool mean_loss, bool mean_gradient) {
  const double w = 0.8;
  const auto x = inputs().q;
  const auto problem_at = [&](double weight) {
    Vector scaled;
    for (const double v : x) scaled.push_back(weight * v);
    return Tensors<double>{scaled, scaled, scaled, Vector(x.size(), 1.0)};
  };
  const auto loss = [&](double weight) {
    double sum = 0;
    for (const double o : naive(kShape, kCausal, kScale, problem_at(weight)).out) sum += o;
    return mean_loss ? sum / kRows : sum;
  };
  const double truth = (loss(w + 1e-5) - loss(w - 1e-5)) / 2e-5;
  // Each rank's loss is over its own rows. The ring brings every rank the gradients of the other
  // ranks' losses for its keys and values.
  Tensors<double> in = problem_at(w);
  const auto n = static_cast<double>(shares.size());
  Index row = 0;
  for (const Index share : shares)
    for (Index i = 0; i < share; ++i, ++row)
      for (Index d = 0; d < kDim; ++d)
        in.dout[row * kDim + d] = mean_loss ? 1.0 / static_cast<double>(share) : 1.0;
  const NaiveResult<double> g = naive(kShape, kCausal, kScale, in);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (g.dq[i] + g.dk[i] + g.dv[i]) * x[i];
  return (mean_gradient ? sum / n : sum) / truth;
}

CLAIM(C44, MeanOfGradientsNeedsMeanLosses, holds_if, "S1", "part one, 2.3; part two, 11") {
  const std::vector<Index> even = {2, 2, 2, 2}, uneven = {3, 3, 1, 1};
  return {
      "The gradients of replicated weights are the mean over the ranks, as in data parallelism.",
      "This is true if each rank's loss is the mean over its rows, and all have equally many. For "
      "a "
      "loss that adds up, which S1's own example takes (out.sum()), the gradients add up too, and "
      "the mean is {1} of the right one on 4 ranks. With unequal shares neither is right: rows "
      "have to be weighted.",
      {Figure("mean of 4 gradients over the true one, mean losses, equal shares",
              gradient_over_truth(even, true, true), near(1, 1e-6),
              {"their sum", gradient_over_truth(even, true, false)}, 1),
       Figure("the same, summed losses", gradient_over_truth(even, false, true), near(0.25, 1e-6),
              {"their sum", gradient_over_truth(even, false, false)}, 1),
       Figure("off by, mean losses, shares of 3, 3, 1, 1 rows",
              std::abs(gradient_over_truth(uneven, true, true) - 1), at_least(0.01),
              {"equal shares", std::abs(gradient_over_truth(even, true, true) - 1)}, 0)}};
}

CLAIM(C78, TheSumIsNotTheLse, wrong, "S1", "part two, 7 (the comments on what is returned)") {
  const double truth = distance(s1_backward(inputs(), Way::by_lse), of_naive());
  return {"l_acc, which the forward returns for the backward, is the row-wise lse.",
          "It is the sum of exp(score - m), as the listing computes it and its backward uses it. "
          "The lse is m + log(l). With P = exp(score - l) a gradient is off by {0} here.",
          {Figure("largest error of a gradient with l in the place of lse, f64",
                  distance(s1_backward(inputs(), Way::sum_for_lse), of_naive()), at_least(0.1),
                  {"lse", truth}, 0)}};
}

}  // namespace
}  // namespace ringscope::claims
