// The formulas of row_bounds.h, one row of weights at a time.
#include "core/attention/row_bounds.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

namespace ringscope {
namespace {

using Weights = Eigen::Map<const Eigen::ArrayXd>;
using KeySums = Eigen::Map<Eigen::ArrayXd>;

constexpr double kUnit = 0x1p-24;             // the largest relative error of a rounding to f32
constexpr double kSmallest = 0x1p-149;        // that f32 holds
constexpr double kSmallestWeight = 1.65e-38;  // e^-87, below which exp_of() returns 0
constexpr double kMostShift = 0.25;           // of a weight

Weights part_of(const std::vector<double>& sizes, const WeightRow& row) {
  return {sizes.data() + row.first, row.count};
}

// What the weights p make of the scores' and the values' sizes.
struct Weighted {
  double scores, values;
  double terms;  // root of the sum of the squares of p values_j
  double shift;  // sum of p (s_j + s - 2 p s_j) values_j
};

Weighted weighted(const Weights& p, const Weights& scores, const Weights& values) {
  const double s = (p * scores).sum();
  return {s, (p * values).sum(), std::sqrt((p * values).square().sum()),
          std::max((p * (scores + s - 2 * p * scores) * values).sum(), 0.0)};
}

// Return the error of a weighted sum of values, each product of which may be off by `least`.
double error_of(const Weighted& sum, double score_size, double growth, double least, Index count) {
  return kUnit * growth * sum.values + least * static_cast<double>(count) +
         std::min(2 * kUnit * score_size * sum.shift, kMostShift * sum.terms);
}

}  // namespace

RowSizes::RowSizes(const double* data, Index rows, Index width) : norm(rows), most(rows) {
  for (Index row = 0; row < rows; ++row) {
    // Divided by the largest element, squares neither overflow nor vanish.
    for (Index c = row * width; c < (row + 1) * width; ++c)
      if (std::isfinite(data[c])) most[row] = std::max(most[row], std::abs(data[c]));
    double squares = 0;
    for (Index c = row * width; c < (row + 1) * width && most[row] > 0; ++c)
      if (std::isfinite(data[c])) squares += data[c] / most[row] * (data[c] / most[row]);
    norm[row] = most[row] * std::sqrt(squares);
  }
}

RowBounder::RowBounder(double softmax_scale, bool is_capped, Index growing, Index head_dim,
                       const RowSizes& q, const RowSizes& k, const RowSizes& v)
    : scale_(std::abs(softmax_scale)),
      is_capped_(is_capped),
      growth_(8 + std::sqrt(static_cast<double>(growing)) / 2),
      dot_growth_((is_capped ? 10 : 2) + std::sqrt(static_cast<double>(head_dim)) / 4),
      q_(q),
      k_(k),
      v_(v) {}

void RowBounder::forward(Index i, const WeightRow& row, double lse, Index at,
                         RowBounds& bounds) const {
  const Weights p(row.p, row.count), values = part_of(v_.most, row);
  const double score_size = size_of_scores(i);
  const Weighted sum = weighted(p, part_of(k_.norm, row), values);
  bounds.out.f32[at] =
      error_of(sum, score_size, growth_, kSmallest, row.count) + kSmallestWeight * values.sum();
  bounds.out.terms[at] = sum.terms;
  bounds.lse.f32[at] =
      std::isfinite(lse) ? kUnit * (growth_ + 4 * score_size * sum.scores + 2 * std::abs(lse)) : 0;
  bounds.lse.terms[at] = 1;
}

void RowBounder::backward(Index i, const WeightRow& row, double lse, const RowSizes& dout,
                          double delta, double delta_norm, Index at, Index keys,
                          RowBounds& bounds) const {
  const Weights p(row.p, row.count), ds(row.ds, row.count);
  const Weights k_norm = part_of(k_.norm, row), k_most = part_of(k_.most, row),
                v_norm = part_of(v_.norm, row);
  const double score_size = size_of_scores(i), dout_norm = dout.norm[i];
  const Weighted sum = weighted(p, k_norm, v_norm);
  const double delta_error = error_of(sum, score_size, growth_, dot_growth_ * kSmallest, row.count);
  const double common = score_size * sum.scores + (std::isfinite(lse) ? std::abs(lse) : 0);

  // Errors of the weights as shares of them, of dS, and of its products below f32.
  const Eigen::ArrayXd w =
      kUnit * growth_ + (2 * kUnit * (score_size * k_norm + common)).min(kMostShift);
  const Eigen::ArrayXd made_of = dout_norm * (v_norm + sum.values);
  const Eigen::ArrayXd error =
      scale_ * (p * (kUnit * dot_growth_ * made_of + dout_norm * delta_error) + w * ds.abs() +
                kSmallestWeight * made_of) +
      std::max(scale_, 1.0) * kSmallest * (1 + 2 * dot_growth_ * dot_growth_ * p);
  const Eigen::ArrayXd terms = ds.abs() + p * (2 * std::abs(delta) + delta_norm);

  bounds.dq.f32[at] = (error * k_most).sum() + kSmallest * static_cast<double>(row.count);
  bounds.dq.terms[at] =
      scale_ * (std::sqrt((terms * k_most).square().sum()) + delta_norm * (p * k_most).sum());
  if (bounds.dk.f32.empty()) return;
  const auto at_keys = [&](std::vector<double>& values) {
    return KeySums(values.data() + keys + row.first, row.count);
  };
  at_keys(bounds.dk.f32) += error * q_.most[i] + kSmallest * (1 + ds.abs());  // of scaled queries
  at_keys(bounds.dk.terms) += (scale_ * q_.most[i] * terms).square();
  at_keys(bounds.dv.f32) += (w * p + kSmallestWeight) * dout.most[i] + kSmallest;
  at_keys(bounds.dv.terms) += (p * dout.most[i]).square();
}

void RowBounder::sink(Index i, const WeightRow& row, double weight, double lse,
                      const RowSizes& dout, double delta, double delta_norm, Index at,
                      RowBound& bound) const {
  const double score_size = size_of_scores(i);
  const Weighted sum =
      weighted(Weights(row.p, row.count), part_of(k_.norm, row), part_of(v_.norm, row));
  const double common = score_size * sum.scores + (std::isfinite(lse) ? std::abs(lse) : 0);
  const double share = kUnit * growth_ + std::min(2 * kUnit * common, kMostShift);
  bound.f32[at] +=
      weight *
          (dout.norm[i] * (kUnit * dot_growth_ * sum.values +
                           error_of(sum, score_size, growth_, dot_growth_ * kSmallest, row.count)) +
           share * std::abs(delta)) +
      kSmallest;
  bound.terms[at] += std::pow(weight * (2 * std::abs(delta) + delta_norm), 2);
}

void finish_terms(RowBound& of_keys) {
  for (double& squares : of_keys.terms) squares = std::sqrt(squares);
}

}  // namespace ringscope
