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

// What an O of 16 bits does to dQ and dK, as mean squares. Flash attention takes delta =
// rowsum(dO * O) from the O that it has stored. Where that is off by e, delta_i is off by d_i = sum_c
// dO_ic e_ic for all of row i's keys alike, dS_ij by -P_ij d_i, and therefore
//   dQ_i by -scale d_i sum_j P_ij K_j    dK_j by -sum_i P_ij (scale d_i Q_i)
// which are an out and a dV: those of attention with K for V and scale d_i Q_i for dO. The size of d_i
// is the root of its variance, and its sign that of the oracle's O when it is rounded.
std::array<double, 2> errors_of_delta(const Knowledge& known) {
  const CheckedInputs& given = known.inputs;
  const DiagnosisOptions& options = known.options;
  const Index width = known.width(), width_v = known.problem.shape.value_dim();
  CheckedProblem with_keys = known.problem;  // for values
  with_keys.shape.head_dim_v = 0;
  CheckedInputs inputs{given.q, given.k, given.k, given.q};
  Values deltas;
  known.for_rows(Tensor::out, [&](Index at, Index) {
    double sum = 0, squares = 0;
    for (Index c = at * width_v; c < (at + 1) * width_v; ++c) {
      const double right = known.oracle.out[c],
                   error = given.dout[c] * (stored_as(options.dtype, right) - right);
      sum += error;
      squares += error * error;
    }
    deltas.push_back(known.problem.softmax_scale * std::copysign(std::sqrt(squares), sum));
    for (Index c = at * width; c < (at + 1) * width; ++c) inputs.dout[c] *= deltas.back();
  });
  NaiveResult<double> made = oracle_of(with_keys, inputs, {64, options.threads, options.rows, {}});
  for (std::size_t i = 0; i < made.out.size(); ++i) made.out[i] *= deltas[i / width];
  const auto mean_square = [](const Values& errors) {
    double sum = 0;
    for (const double error : errors) sum += std::isfinite(error) ? error * error : 0;
    return sum / std::max(static_cast<double>(errors.size()), 1.0);
  };
  return {mean_square(made.out), mean_square(made.dv)};
}

// Judge a tensor that may be off by a mean square `besides`, beside its own rounding.
TensorCheck check_tensor(const Knowledge& known, Tensor tensor, const Values& mine, DType dtype,
                         double besides = 0) {
  const Values& oracle = values_of(known.oracle, tensor);
  const RowBound& bound = values_of(known.oracle.bounds, tensor);
  const AttentionShape& shape = known.problem.shape;
  const Index width = width_of(shape, tensor), rows_of_head = seqlen_of(shape, tensor),
              heads = is_key_side(tensor) ? shape.num_heads_kv : shape.num_heads;
  // The lse is summed and kept in f32, from scores in f32, unless all of it is stored in 16 bits.
  constexpr double kInF32 = 16;
  const bool is_in_f32 =
      dtype == DType::f32 || (tensor == Tensor::lse && !is_stored_in(dtype, mine));
  TensorCheck check;
  check.tensor = tensor;
  double squares = 0, rounding = 0, size = 0, bounds = 0, rows = 0, largest_terms = 0;
  std::vector<std::pair<Index, double>> of_rows;  // position and sum of squared errors
  std::set<Index> wrong;
  known.for_rows(tensor, [&](Index at, Index position) {
    for (Index i = at * width; i < (at + 1) * width; ++i) {
      if (!std::isfinite(oracle[i])) continue;
      size += oracle[i] * oracle[i];
      const double off = stored_as(dtype, oracle[i]) - oracle[i];
      if (std::isfinite(off)) rounding += off * off;
    }
    const RowDistance distance(&oracle[at * width], &mine[at * width], width);
    check.disagreeing_non_finite += distance.disagreeing_non_finite;
    const double exact = bound.f32[at];
    const double tolerance = !is_in_f32 ? rounding_of(tensor, dtype, bound, at, distance.largest)
                             : dtype == DType::f32 ? exact
                                                   : kInF32 * exact;
    const WorstRow row{at / rows_of_head / heads, at / rows_of_head % heads, position,
                       distance.most, tolerance};
    check.worst.take_if_worse(row);
    if (!row.passes()) wrong.insert(position);
    check.is_exact = check.is_exact && (distance.most == 0 || distance.most <= exact);
    check.max_abs = std::max(check.max_abs, distance.most);
    if (distance.most > exact) check.times_f32 = std::max(check.times_f32, distance.most / exact);
    squares += distance.squares;
    of_rows.emplace_back(position, distance.squares);
    if (std::isfinite(exact)) bounds += exact * exact;
    largest_terms = std::max(largest_terms, distance.largest + bound.terms[at]);
    ++rows;
  });
  const double count = std::max(rows * static_cast<double>(width), 1.0);
  check.rms = std::sqrt(squares / count);
  check.right_rms = std::sqrt(size / count);
  check.rms_tolerance =
      std::sqrt(bounds / std::max(rows, 1.0)) * (is_in_f32 && dtype != DType::f32 ? kInF32 : 1);
  if (!is_in_f32)
    check.rms_tolerance += 2.2 * std::sqrt(rounding / count + besides) +
                           (tensor >= Tensor::dq ? 0.05 * half_unit_of(dtype) * largest_terms : 0);
  if (check.passes()) return check;
  const double most = check.rms_tolerance * check.rms_tolerance * static_cast<double>(width);
  if (wrong.empty())
    for (const auto& [position, of_row] : of_rows)
      if (!(of_row <= most)) wrong.insert(position);
  if (wrong.empty()) return check;
  check.wrong_rows = std::ssize(wrong);
  check.first_wrong_row = *wrong.begin();
  check.last_wrong_row = *wrong.rbegin();
  std::set<int> ranks;
  for (const Index position : wrong)
    if (tensor != Tensor::dsink) ranks.insert(known.deal_of(tensor).places[position].rank);
  check.wrong_ranks.assign(ranks.begin(), ranks.end());
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
    const DealtRows& deal = known.deal_of(tensor);
    const Place& place = deal.places[position];
    const bool is_upper = place.local_row >= (std::ssize(deal.positions[place.rank]) + 1) / 2;
    for (Squares* const of : {&by_chunk[2 * place.rank + is_upper],
                              &by_head[row / seqlen_of(known.problem.shape, tensor)]})
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
  // Where NaN is right, because NaN among the inputs reach it, anything else tells of no mistake.
  NaiveResult<double> telling;
  std::vector<TensorCheck> checks;
  const Knowledge known{problem, inputs, oracle, mine, options};
  std::optional<std::array<double, 2>> of_delta;  // computed where it may matter
  const auto check_of = [&](Tensor tensor, const Values& given) {
    TensorCheck check = check_tensor(known, tensor, given, options.dtype);
    if (options.dtype != DType::f32) {
      if (check.passes() || !(tensor == Tensor::dq || tensor == Tensor::dk)) return check;
      if (!of_delta) of_delta = errors_of_delta(known);
      return check_tensor(known, tensor, given, options.dtype, (*of_delta)[tensor == Tensor::dk]);
    }
    for (const DType dtype : {DType::bf16, DType::f16})
      if (!check.passes() && !check.right_in && is_stored_in(dtype, given) &&
          check_tensor(known, tensor, given, dtype).passes())
        check.right_in = dtype;
    return check;
  };
  for (const Tensor tensor : output_tensors(true, true)) {
    const Values &given = values_of(mine, tensor), &right = values_of(oracle, tensor);
    if (given.empty()) continue;
    verdict.tensors.push_back(check_of(tensor, given));
    verdict.maps.push_back(map_of(known, tensor));
    const TensorCheck& check = verdict.tensors.back();
    if (!check.is_exact) verdict.result = std::max(verdict.result, CheckResult::rounding);
    if (!check.passes()) verdict.result = CheckResult::wrong;
    Values& tells = values_of(telling, tensor);
    tells = given;
    for (std::size_t i = 0; i < tells.size(); ++i)
      if (std::isnan(right[i])) tells[i] = right[i];
    // What 16 bits explain tells of no mistake.
    if (!check.right_in) checks.push_back(tells == given ? check : check_of(tensor, tells));
  }
  if (verdict.result == CheckResult::wrong) {
    const Knowledge told{problem, inputs, oracle, telling, options};
    verdict.suspects = diagnose(told, checks);
  } else if (verdict.result == CheckResult::rounding && known.is_plain()) {
    verdict.suspects = find_hop_rounding(known, verdict.tensors);
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
