// Tests the sources' formulas for softmax and its carried form, on single rows.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/claims/claim.h"
#include "tests/claims/rows.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope::claims {
namespace softmax_test {

// Count the output rows that change when row 2 of Q, or else of K, does.
double rows_changed(bool change_query) {
  const AttentionShape shape{1, 1, 1, 6, 3};
  const auto in = converted<double>(random_tensors(shape, 1));
  auto other = in;
  for (int x = 0; x < 3; ++x) (change_query ? other.q : other.k)[2 * 3 + x] += 1;
  const Mask mask{.seqlen = 6};
  const auto before = naive(shape, mask, 1, in).out, after = naive(shape, mask, 1, other).out;
  double changed = 0;
  for (int i = 0; i < 6; ++i) changed += before[i * 3] != after[i * 3] ? 1 : 0;
  return changed;
}

CLAIM(C02, AnOutputRowDependsOnItsQueryOnly, holds, "S0", "Splitting Q") {
  return {
      "A row of the output depends on a single row of Q, so queries can be dealt out without any "
      "exchange.",
      "It does: changing one row of Q changes {0} row of the output only. A row of K or V, on the "
      "other hand, reaches every output row that may see it, and this is why K and V have to "
      "travel.",
      {Figure("output rows of 6 that change with one query row", rows_changed(true), exactly(1),
              {"one key row changed instead", rows_changed(false)}, 1)}};
}

// Return the largest score whose exp is finite, but for its last few bits.
template <class T>
double largest_finite_exponent() {
  T low = 1, high = 1000;
  for (int i = 0; i < 60; ++i) {
    const T middle = (low + high) / 2;
    (std::isfinite(std::exp(middle)) ? low : high) = middle;
  }
  return static_cast<double>(low);
}

// Return the largest difference between a plain softmax in f64 and one with scores shifted by
// `shift`.
double difference_when_shifted(const Row& row, double shift, double shift_of_sum) {
  double sum = 0, shifted_sum = 0, largest = 0;
  for (const double s : row.scores) {
    sum += std::exp(s);
    shifted_sum += std::exp(s - shift_of_sum);
  }
  for (const double s : row.scores)
    largest = std::max(largest, std::abs(std::exp(s) / sum - std::exp(s - shift) / shifted_sum));
  return largest;
}

CLAIM(C03, SubtractingTheMaximumChangesNothing, holds, "S0, S1, S3",
      "S0, Safe softmax; S1, part two, 4.2; S3, entry 2") {
  const Row row = random_row(40, 3);
  const double top = *std::ranges::max_element(row.scores);
  const std::vector<float> high = {89, 90};
  std::vector<float> safe(2);
  safe_softmax<float>(high, safe);
  const float sum = std::exp(high[0]) + std::exp(high[1]);
  return {
      "Softmax is the same with the row's maximum subtracted from every score; without that, exp "
      "overflows.",
      "In f32 exp is finite up to {1}; two scores of 89 and 90 already give NaN weights without "
      "the subtraction, since inf / inf is NaN.",
      {Figure("largest difference of a weight, 40 keys, f64",
              difference_when_shifted(row, top, top), at_most(1e-15),
              {"the sum left as it was", difference_when_shifted(row, top, 0)}, 0, Shown::bound),
       Figure("largest score whose exp is finite, f32", largest_finite_exponent<float>(),
              near(88.72, 0.005), {"f64", largest_finite_exponent<double>()}),
       Figure("NaN among the weights of scores 89 and 90, nothing subtracted, f32",
              count_nan(std::vector<double>{std::exp(high[0]) / sum, std::exp(high[1]) / sum}),
              exactly(2), {"maximum subtracted", count_nan(std::vector<double>{safe[0], safe[1]})},
              "overflow")}};
}

// Apply S0's update block by block. A `value_shift` of 1 takes V of the block before, as printed. Only
// the first `summed` exps of a block are added to l.
double carried_error(const Row& row, int value_shift, bool rescale, std::size_t summed = 10) {
  const std::size_t size = row.size() / 4;
  double m = kMinusInf, l = 0, a = 0;
  for (std::size_t j = 0; j < 4; ++j) {
    const std::size_t v = (j + 4 - static_cast<std::size_t>(value_shift)) % 4;
    double m_new = m;
    for (std::size_t k = 0; k < size; ++k) m_new = std::max(m_new, row.scores[j * size + k]);
    const double factor = rescale ? std::exp(m - m_new) : 1;
    a *= factor;
    l *= factor;
    for (std::size_t k = 0; k < size; ++k) {
      const double p = std::exp(row.scores[j * size + k] - m_new);
      a += p * row.values[v * size + k];
      if (k < summed) l += p;
    }
    m = m_new;
  }
  return std::abs(a / l - softmax_average(row));
}

CLAIM(C04, CarriedUpdateIsExact, holds_if, "S0", "Safe softmax") {
  const Row row = random_row(40, 4);
  return {
      "Carrying A (the sum of weights times V, not yet divided) and l from block to block, "
      "rescaled whenever the maximum grows, gives the exact output.",
      "It is exact if the weights of block j+1 multiply the values of block j+1, and l grows by "
      "the "
      "sum of its exps. The printed formula has V_j, which is off by {1} in this example, and no "
      "sum: "
      "with one exp per block l is too small, and the output off by {2}.",
      {Figure("error with V_(j+1), 40 keys in 4 blocks, f64", carried_error(row, 0, true),
              at_most(1e-14), {"no rescaling", carried_error(row, 0, false)}, 0, Shown::bound),
       Figure("error with V_j, as printed", carried_error(row, 1, true), at_least(1e-3),
              {"V_(j+1)", carried_error(row, 0, true)}, 0),
       Figure("error with one exp per block in l", carried_error(row, 0, true, 1), at_least(1e-3),
              {"the block's sum", carried_error(row, 0, true)}, 0)}};
}

std::vector<double> example_weights(double scale) {
  const std::vector<double> scores = {scale, 0, scale, 0};
  std::vector<double> weights(4);
  safe_softmax<double>(scores, weights);
  return weights;
}

CLAIM(C37, ExampleWeightsAreAThirdAndASixth, wrong, "S3", "entry 1, worked example") {
  const std::vector<double> right = example_weights(std::sqrt(0.5)), unscaled = example_weights(1);
  return {"The softmax of [0.707, 0, 0.707, 0] is [0.31, 0.15, 0.31, 0.15].",
          "[{0}, {1}, {0}, {1}]. The printed weights add up to 0.92.",
          {Figure("weight of a score of 0.707", right[0], near(0.3349, 5e-4),
                  {"not divided by sqrt(2)", unscaled[0]}, 0.31),
           Figure("weight of a score of 0", right[1], near(0.1651, 5e-4),
                  {"not divided by sqrt(2)", unscaled[1]}, 0.15),
           Figure("sum of the weights", std::accumulate(right.begin(), right.end(), 0.0),
                  near(1, 1e-12), {"of the exps", 2 * std::exp(std::sqrt(0.5)) + 2},
                  0.31 + 0.15 + 0.31 + 0.15)}};
}

CLAIM(C38, MergeExampleIs24Point2, holds_if, "S3", "entry 2, worked example") {
  const Row row{{2, 1, 3}, {10, 20, 30}};
  auto part = part_of<double>(row, 0, 2);
  const auto block = part_of<double>(row, 2, 3);
  const double unscaled = (part.out + block.out) / (part.row.row_sum + block.row.row_sum);
  part.add(block);
  const auto by_printed_steps = [](double factor) { return (factor * 1.368 * 12.69 + 30) / 1.504; };
  return {
      "Scores [2, 1] with values [10, 20], merged with score [3] and value [30], give 24.18, the "
      "same number as all at once.",
      "Both ways give {0}, so the merge is exact as claimed. The printed 24.18 is right to three "
      "digits only; S3's own rounded steps give {2}.",
      {Figure("merged, to three digits", part.normalised(), near(24.2, 0.05),
              {"no rescaling", unscaled}, 24.18),
       Figure("merged, less all at once, f64", part.normalised() - softmax_average(row),
              near(0, 1e-12), {"no rescaling", unscaled - softmax_average(row)},
              24.18 - softmax_average(row), Shown::bound),
       Figure("by the rounded numbers that S3 prints on the way", by_printed_steps(std::exp(-1)),
              near(24.193, 0.002), {"no rescaling", by_printed_steps(1)}, 24.18)}};
}

}  // namespace softmax_test
}  // namespace ringscope::claims
