// Tests the sources' formulas for merging the partial results of blocks, on single rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/claims/claim.h"
#include "tests/claims/rows.h"

namespace ringscope::claims {
namespace merge_test {

struct MergeTrial {
  double largest_order = 0;     // |ab - ba|, relative
  double largest_grouping = 0;  // |(ab)c - a(bc)|, relative
  double rows_regrouped = 0;    // of 1,000, whose bits depend on the grouping
  double rows_repeated = 0;     // of 1,000, whose bits differ when the same is done again
  double error = 0;             // against all keys at once, f64
  double error_unscaled = 0;    // the same without the factors
};

MergeTrial try_merges() {
  MergeTrial trial;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Row row = random_row(30, seed);
    const auto a = part_of<float>(row, 0, 10), b = part_of<float>(row, 10, 20),
               c = part_of<float>(row, 20, 30);
    Part<float> ab = a, ba = b, bc = b, left, right = a;
    ab.add(b);
    ba.add(a);
    bc.add(c);
    left = ab;
    left.add(c);
    right.add(bc);
    const auto apart = [](const Part<float>& x, const Part<float>& y) {
      return std::max(std::abs(double(x.row.row_sum) - y.row.row_sum) / x.row.row_sum,
                      std::abs(double(x.out) - y.out) / x.row.row_sum);
    };
    trial.largest_order = std::max(trial.largest_order, apart(ab, ba));
    trial.largest_grouping = std::max(trial.largest_grouping, apart(left, right));
    const auto differ = [](const Part<float>& x, const Part<float>& y) {
      return x.out != y.out || x.row.row_sum != y.row.row_sum ? 1 : 0;
    };
    trial.rows_regrouped += differ(left, right);
    Part<float> again = a;
    again.add(b);
    again.add(c);
    trial.rows_repeated += differ(left, again);
    auto exact = part_of<double>(row, 0, 15);
    const auto rest = part_of<double>(row, 15, 30);
    const double unscaled = (exact.out + rest.out) / (exact.row.row_sum + rest.row.row_sum);
    exact.add(rest);
    const double truth = softmax_average(row);
    trial.error = std::max(trial.error, std::abs(exact.normalised() - truth));
    trial.error_unscaled = std::max(trial.error_unscaled, std::abs(unscaled - truth));
  }
  return trial;
}

CLAIM(C05, MergeIsExactUpToRounding, holds, "S1, S2",
      "S1, part two, 4.2; S2, Mathematical Correctness, 2") {
  const MergeTrial trial = try_merges();
  return {
      "Merging (m, l, O) of disjoint sets of keys is exact, whatever the order and the grouping; "
      "up "
      "to rounding, as S2 says.",
      "It is. Order and grouping change the last digits, so bitwise repeatable results need a "
      "fixed "
      "order, which a ring has.",
      {Figure("error of two merged halves, 1,000 rows of 30 keys, f64", trial.error, at_most(1e-13),
              {"added without the factors", trial.error_unscaled}, 0, Shown::bound),
       Figure("largest difference between the two orders, over l, f32", trial.largest_order,
              at_most(1e-6), {"added without the factors", trial.error_unscaled}, 0, Shown::bound),
       Figure("largest difference between the two groupings, over l, f32", trial.largest_grouping,
              at_most(1e-6), {"added without the factors", trial.error_unscaled}, 0, Shown::bound),
       Figure("rows of 1,000 whose bits depend on the grouping, f32", trial.rows_regrouped,
              at_least(1), {"the same grouping twice", trial.rows_repeated}, kNothing,
              Shown::bound)}};
}

struct LseResult {
  double lse, out;
};

LseResult lse_merged(const Row& row) {
  const auto a = part_of<double>(row, 0, 15), b = part_of<double>(row, 15, 30);
  LseResult result{a.lse(), a.normalised()};
  const double other = b.normalised();
  merge_by_lse<double>(result.lse, std::span<double>(&result.out, 1), b.lse(),
                       std::span<const double>(&other, 1));
  return result;
}

CLAIM(C06, LseMergeIsExactButForTwoEmptySides, holds_if, "S2", "Online Softmax") {
  const Row row = random_row(30, 6);
  const double truth = softmax_average(row);
  const double m = std::max(kMinusInf, kMinusInf);
  const double lse = m + std::log(std::exp(kMinusInf - m) + std::exp(kMinusInf - m));
  const double out = std::exp(kMinusInf - lse) * 0 + std::exp(kMinusInf - lse) * 0;
  double ours = kMinusInf, ours_out = 0;
  const double nothing = 0;
  merge_by_lse<double>(ours, std::span<double>(&ours_out, 1), kMinusInf,
                       std::span<const double>(&nothing, 1));
  return {
      "Partial outputs merge exactly by their log-sum-exp alone: weights e^(lse_a - lse) and "
      "e^(lse_b - lse).",
      "It is exact if at least one side has seen a key. S2 starts from lse = -inf, and where the "
      "first block is masked for a row the merge forms -inf - -inf: both lse and output are NaN "
      "ever after.",
      {Figure("error of two merged halves, f64", std::abs(lse_merged(row).out - truth),
              at_most(1e-14),
              {"both halves weighted alike", std::abs((part_of<double>(row, 0, 15).normalised() +
                                                       part_of<double>(row, 15, 30).normalised()) /
                                                          2 -
                                                      truth)},
              0, Shown::bound),
       Figure("NaN among lse and output when both sides are empty",
              count_nan(std::vector<double>{lse, out}), exactly(2),
              {"an empty side passed over", count_nan(std::vector<double>{ours, ours_out})}, 0)}};
}

CLAIM(C07, MaximaAreNoWeights, wrong, "S2", "Mathematical Correctness, 1") {
  // Three keys of score 0 and value 1, then one key of score 1 and value 0.
  Row row{std::vector<double>(3, 0), std::vector<double>(3, 1)};
  row.scores.push_back(1);
  row.values.push_back(0);
  const auto a = part_of<double>(row, 0, 3), b = part_of<double>(row, 3, 4);
  const double by_maxima =
      std::exp(a.row.row_max) / (std::exp(a.row.row_max) + std::exp(b.row.row_max));
  const double by_lse = std::exp(a.lse()) / (std::exp(a.lse()) + std::exp(b.lse()));
  return {
      "The softmax over a union of blocks is each block's softmax weighted by e^(m_j - m) over "
      "their sum, m_j the block's maximum.",
      "The weights need each block's log-sum-exp in the maximum's place: e^(lse_j) over the sum of "
      "them. By maxima alone a block of many keys counts no more than a single key. Here three "
      "keys with score 0 have {0} of the weight beside one key with score 1, not 0.27. S2's own "
      "merge, further up, uses lse.",
      {Figure("weight of a block with three keys of score 0, beside one key of score 1",
              by_lse * a.normalised(), near(softmax_average(row), 1e-12),
              {"weighted by maxima", by_maxima}, by_maxima)}};
}

// Carry a normalised output on over four blocks, as S4's step 3 and S1's formula do.
double normalised_form_error(const Row& row, bool with_old_sum) {
  double m = kMinusInf, l = 0, o = 0;
  for (const auto& [first, last] : blocks_of(row, 4)) {
    const auto block = part_of<double>(row, first, last);
    const double m_new = std::max(m, block.row.row_max);
    const double l_old = l;
    l = l_old * std::exp(m - m_new) + block.row.row_sum * std::exp(block.row.row_max - m_new);
    o = (o * (with_old_sum ? l_old : 1) * std::exp(m - m_new) +
         block.out * std::exp(block.row.row_max - m_new)) /
        l;
    m = m_new;
  }
  return std::abs(o - softmax_average(row));
}

CLAIM(C08, ANormalisedOutputNeedsItsOldSum, wrong, "S4", "part 2, step 3") {
  const Row row = random_row(40, 8);
  return {
      "The new output is the old one times e^(m_old - m_new), plus the block's times e^(m_b - "
      "m_new), over l_new.",
      "The old output was divided by l_old in the round before, and has to be multiplied with it "
      "first (C10 has that). As printed, every round shrinks what came before; the error is {0} "
      "here.",
      {Figure("error after 4 blocks, 40 keys, f64", normalised_form_error(row, false),
              at_least(1e-2), {"multiplied with l_old", normalised_form_error(row, true)}, 0)}};
}

CLAIM(C10, S1sNormalisedFormIsExact, holds, "S1", "part one, 4.3") {
  const Row row = random_row(40, 8);
  return {"The output can be kept normalised: the old one counts l_old e^(m_old - m_new) / l_new.",
          "This is exact. It divides at every block, the unnormalised form only at the end.",
          {Figure("error after 4 blocks, 40 keys, f64", normalised_form_error(row, true),
                  at_most(1e-14), {"without l_old", normalised_form_error(row, false)}, 0,
                  Shown::bound)}};
}

}  // namespace merge_test
}  // namespace ringscope::claims
