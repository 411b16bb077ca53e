#include "core/tools/check/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// What the tolerances are made of.
struct Sizes {
  double growth = 0;
  double dq = 0, dk = 0, dv = 0;  // the products of the norms that a gradient is made of
};

Sizes sizes_of(const CheckedProblem& problem, const CheckedInputs& inputs) {
  const Index width = problem.shape.head_dim;
  const double scale = std::abs(problem.softmax_scale);
  const double q = largest_row_norm(inputs.q, width), k = largest_row_norm(inputs.k, width);
  Sizes sizes;
  sizes.growth = 16 + 4 * scale * q * k + std::sqrt(static_cast<double>(problem.shape.seqlen)) / 2;
  if (inputs.dout.empty()) return sizes;
  const double dout = largest_row_norm(inputs.dout, width), v = largest_row_norm(inputs.v, width);
  const double a_value = 1 / std::sqrt(static_cast<double>(width));
  sizes.dq = scale * dout * v * k * a_value;
  sizes.dk = scale * dout * v * q * a_value;
  sizes.dv = dout * a_value;
  return sizes;
}

double half_unit_of(DType dtype) { return dtype == DType::f16 ? 0x1p-11 : 0x1p-9; }

// Count the wrong rows: those with an element, or else a root mean square, beyond the tolerance; and
// rows of out in 16 bits that are small and far off.
void count_rows(const Knowledge& known, const Values& right, const Values& given,
                TensorCheck& check) {
  const Index width = width_of(known.problem.shape, check.tensor);
  const DType dtype = known.options.dtype;
  const bool is_strange_to_16_bits = check.tensor == Tensor::out && dtype != DType::f32;
  std::set<Index> positions, by_rms;
  std::vector<std::pair<double, Index>> far;  // by minus the relative error
  known.for_rows(check.tensor, [&](Index at, Index position) {
    double most = 0, squares = 0, norm = 0;
    for (Index c = at * width; c < (at + 1) * width; ++c) {
      if (right[c] == given[c] || (std::isnan(right[c]) && std::isnan(given[c]))) continue;
      const double error = std::abs(given[c] - right[c]);
      most = std::isfinite(error) ? std::max(most, error) : kInfinite;
      squares += error * error;
    }
    if (most > check.tolerance) positions.insert(position);
    if (!(squares <= check.rms_tolerance * check.rms_tolerance * static_cast<double>(width)))
      by_rms.insert(position);
    if (!is_strange_to_16_bits || !(squares > 0) || most > check.tolerance) return;
    for (Index c = at * width; c < (at + 1) * width; ++c) norm += right[c] * right[c];
    constexpr double kFar = 0.1;
    if (squares > kFar * kFar * norm) far.emplace_back(-squares / norm, at);
  });
  constexpr std::size_t kMost = 256;
  std::sort(far.begin(), far.end());
  far.resize(std::min(far.size(), kMost));
  for (const auto& [error, at] : far) {
    const QueryRow row = query_row(known, at / known.seqlen(), at % known.seqlen(), false);
    double norm = dot_of(&right[at * width], &right[at * width], width);
    const double squares = -error * norm;
    for (Index j = 0; j < known.seqlen(); ++j) {
      const double* const v = row.values + j * width;
      if (row.counts[j] > 0)
        norm += std::exp(2 * (row.scores[j] - known.oracle.lse[at])) * dot_of(v, v, width);
    }
    const double most = 16 * half_unit_of(dtype);
    if (!(squares > most * most * norm)) continue;
    ++check.strange_rows;
    positions.insert(row.position);
  }
  if (check.passes()) return;
  if (positions.empty()) positions = by_rms;
  if (positions.empty()) return;
  check.wrong_rows = std::ssize(positions);
  check.first_wrong_row = *positions.begin();
  check.last_wrong_row = *positions.rbegin();
}

// What an O of 16 bits does to dQ and dK, as mean squares. Flash attention takes delta =
// rowsum(dO * O) from the O that it has stored. Where that is off by e, delta_i is off by d_i = sum_c
// dO_ic e_ic for all of row i's keys alike, dS_ij by -P_ij d_i, and therefore
//   dQ_i by -scale d_i sum_j P_ij K_j    dK_j by -sum_i P_ij (scale d_i Q_i)
// which are an out and a dV: those of attention with K for V and scale d_i Q_i for dO. The size of d_i
// is the root of its variance, and its sign that of the oracle's O when it is rounded.
std::array<double, 2> errors_of_delta(const Knowledge& known) {
  const CheckedInputs& given = known.inputs;
  const DiagnosisOptions& options = known.options;
  const Index width = known.width();
  CheckedInputs inputs{given.q, given.k, given.k, given.q};
  Values deltas;
  known.for_rows(Tensor::out, [&](Index at, Index) {
    double sum = 0, squares = 0;
    for (Index c = at * width; c < (at + 1) * width; ++c) {
      const double right = known.oracle.out[c],
                   error = given.dout[c] * (stored_as(options.dtype, right) - right);
      sum += error;
      squares += error * error;
    }
    deltas.push_back(known.problem.softmax_scale * std::copysign(std::sqrt(squares), sum));
    for (Index c = at * width; c < (at + 1) * width; ++c) inputs.dout[c] *= deltas.back();
  });
  NaiveResult<double> made =
      oracle_of(known.problem, inputs, {64, options.threads, options.rows, {}});
  for (std::size_t i = 0; i < made.out.size(); ++i) made.out[i] *= deltas[i / width];
  const auto mean_square = [](const Values& errors) {
    double sum = 0;
    for (const double error : errors) sum += std::isfinite(error) ? error * error : 0;
    return sum / std::max(static_cast<double>(errors.size()), 1.0);
  };
  return {mean_square(made.out), mean_square(made.dv)};
}

// Judge a tensor that may be off by a mean square `besides`, beside its own rounding.
TensorCheck check_tensor(const Knowledge& known, Tensor tensor, const Values& mine,
                         const Sizes& sizes, double besides = 0) {
  const Values& oracle = values_of(known.oracle, tensor);
  const DType dtype = known.options.dtype;
  TensorCheck check;
  check.tensor = tensor;
  double largest = 0, squares = 0, rounding = 0, size = 0, count = 0;
  bool stored_in_16_bits = true;
  const auto look_at = [&](Index i) {
    ++count;
    const double right = oracle[i], given = mine[i];
    if (std::isfinite(right)) largest = std::max(largest, std::abs(right));
    if (std::isfinite(right)) size += right * right;
    const double rounded = stored_as(dtype, right);
    if (std::isfinite(right) && std::isfinite(rounded))
      rounding += (rounded - right) * (rounded - right);
    if (right == given || (std::isnan(right) && std::isnan(given))) return;
    if (!std::isfinite(right) || !std::isfinite(given)) {
      ++check.disagreeing_non_finite;
      check.max_abs = squares = kInfinite;
      return;
    }
    stored_in_16_bits = stored_in_16_bits && stored_as(dtype, given) == given;
    check.max_abs = std::max(check.max_abs, std::abs(given - right));
    squares += (given - right) * (given - right);
  };
  const Index width = width_of(known.problem.shape, tensor);
  known.for_rows(tensor, [&](Index at, Index) {
    for (Index c = 0; c < width; ++c) look_at(at * width + c);
  });
  count = std::max(count, 1.0);
  check.rms = std::sqrt(squares / count);
  check.right_rms = std::sqrt(size / count);
  const bool is_gradient = tensor >= Tensor::dq;
  const double made_of = tensor == Tensor::dq   ? sizes.dq
                         : tensor == Tensor::dk ? sizes.dk
                                                : sizes.dv;
  const double scale = is_gradient             ? std::max(largest, 0.1 * made_of)
                       : tensor == Tensor::lse ? std::max(largest, 1.0)
                                               : largest;
  check.exact_tolerance = 0x1p-24 * sizes.growth * scale;
  check.tolerance = check.rms_tolerance = check.exact_tolerance;
  if (dtype == DType::f32) return check;
  if (tensor == Tensor::lse && !stored_in_16_bits) {
    // The lse is summed and kept in f32, from scores in f32.
    check.tolerance = check.rms_tolerance = 16 * check.exact_tolerance;
    return check;
  }
  const double unit = half_unit_of(dtype);
  check.tolerance =
      (is_gradient ? 8 : 6) * unit * scale + 8 * std::sqrt(besides) + check.exact_tolerance;
  check.rms_tolerance = 2.2 * std::sqrt(rounding / count + besides) +
                        (is_gradient ? 0.05 * unit * scale : 0) + check.exact_tolerance;
  return check;
}

ErrorMap map_of(const Knowledge& known, Tensor tensor) {
  const Values &right = values_of(known.oracle, tensor), &given = values_of(known.mine, tensor);
  const Index width = width_of(known.problem.shape, tensor);
  struct Squares {
    double sum = 0, count = 0;
    double root() const { return count > 0 ? std::sqrt(sum / count) : 0; }
  };
  std::vector<Squares> by_chunk(2 * known.ranks()), by_head(heads_of(known.problem.shape, tensor));
  known.for_rows(tensor, [&](Index row, Index position) {
    double sum = 0;
    for (Index at = row * width; at < (row + 1) * width; ++at) {
      if (right[at] == given[at] || (std::isnan(right[at]) && std::isnan(given[at]))) continue;
      const double error = given[at] - right[at];
      sum += std::isfinite(error) ? error * error : kInfinite;
    }
    const Index chunk = 2 * known.deal.places[position].rank + known.is_upper(position);
    for (Squares* const of : {&by_chunk[chunk], &by_head[row / known.seqlen()]})
      *of = {of->sum + sum, of->count + static_cast<double>(width)};
  });
  ErrorMap map{std::string(name_of(tensor)), {}, {}};
  for (int rank = 0; rank < known.ranks(); ++rank)
    map.by_rank_and_chunk.push_back({by_chunk[2 * rank].root(), by_chunk[2 * rank + 1].root()});
  for (const Squares& of : by_head) map.by_head.push_back(of.root());
  return map;
}

}  // namespace

CheckVerdict check_outputs(const CheckedProblem& problem, const CheckedInputs& inputs,
                           const NaiveResult<double>& oracle, const NaiveResult<double>& mine,
                           const DiagnosisOptions& options) {
  CheckVerdict verdict;
  const Sizes sizes = sizes_of(problem, inputs);
  // Where NaN is right, because NaN among the inputs reach it, anything else tells of no mistake.
  NaiveResult<double> telling;
  std::vector<TensorCheck> checks;
  const Knowledge known{problem, inputs, oracle, mine, options};
  std::optional<std::array<double, 2>> of_delta;  // computed where it may matter
  const auto check_of = [&](Tensor tensor, const Values& given) {
    const TensorCheck check = check_tensor(known, tensor, given, sizes);
    if (check.passes() || options.dtype == DType::f32 ||
        !(tensor == Tensor::dq || tensor == Tensor::dk))
      return check;
    if (!of_delta) of_delta = errors_of_delta(known);
    return check_tensor(known, tensor, given, sizes, (*of_delta)[tensor == Tensor::dk]);
  };
  for (const Tensor tensor : output_tensors(true)) {
    const Values &given = values_of(mine, tensor), &right = values_of(oracle, tensor);
    if (given.empty()) continue;
    verdict.tensors.push_back(check_of(tensor, given));
    verdict.maps.push_back(map_of(known, tensor));
    TensorCheck& check = verdict.tensors.back();
    count_rows(known, right, given, check);
    if (!check.is_exact()) verdict.result = std::max(verdict.result, CheckResult::rounding);
    if (!check.passes()) verdict.result = CheckResult::wrong;
    Values& tells = values_of(telling, tensor);
    tells = given;
    for (std::size_t i = 0; i < tells.size(); ++i)
      if (std::isnan(right[i])) tells[i] = right[i];
    checks.push_back(tells == given ? check : check_of(tensor, tells));
  }
  if (verdict.result == CheckResult::wrong) {
    verdict.suspects = diagnose({problem, inputs, oracle, telling, options}, checks);
  } else if (verdict.result == CheckResult::rounding) {
    verdict.suspects = find_hop_rounding(known);
    if (!verdict.suspects.empty()) verdict.result = CheckResult::wrong;
  }
  return verdict;
}

std::string map_text(const ErrorMap& map) {
  std::string text = fmt::format("\nrms error of {}, by rank and chunk\n", map.tensor);
  for (std::size_t rank = 0; rank < map.by_rank_and_chunk.size(); ++rank) {
    text += fmt::format("  rank {:<4}", rank);
    for (const double error : map.by_rank_and_chunk[rank]) text += fmt::format("{:>11.3g}", error);
    text += "\n";
  }
  text += "by head";
  constexpr std::size_t kShown = 16;
  for (std::size_t head = 0; head < map.by_head.size() && head < kShown; ++head)
    text += fmt::format("{:>10.3g}", map.by_head[head]);
  if (map.by_head.size() > kShown)
    text += fmt::format("  and {} more", map.by_head.size() - kShown);
  return text + "\n";
}

}  // namespace ringscope
