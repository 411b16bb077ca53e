// Tests in which type the state between steps must be kept, by rounding errors against f64.
#include <cmath>

#include "core/base/dtype.h"
#include "tests/claims/claim.h"
#include "tests/claims/rows.h"

namespace ringscope::claims {
namespace {

// Return the mean error of 200 rows of 1,024 keys. Each of `blocks` blocks is computed in f32 and
// merged into a state that is kept in `state` from block to block.
double mean_error(std::size_t blocks, DType state) {
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Row row = random_row(1024, 1000 + seed);
    Part<float> part;
    for (const auto& [first, last] : blocks_of(row, blocks)) {
      part.add(part_of<float>(row, first, last));
      part.out = round_to(state, part.out);
      part.row.row_max = round_to(state, part.row.row_max);
      part.row.row_sum = round_to(state, part.row.row_sum);
    }
    sum += std::abs(static_cast<double>(part.normalised()) - softmax_average(row));
  }
  return sum / 200;
}

// Add up `count` ones, one by one, in `state`.
double sum_of_ones(int count, DType state) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum = round_to(state, sum + 1);
  return static_cast<double>(sum);
}

// Return how many blocks of 2,048 equal keys it takes until their sum, kept in `state`, overflows.
double blocks_until_overflow(DType state) {
  float sum = 0;
  int blocks = 0;
  for (; blocks < 1000 && std::isfinite(sum); ++blocks) sum = round_to(state, sum + 2048);
  return blocks;
}

CLAIM(C46, F32AccumulatorsAreForPrecision, holds_if, "S1, S3",
      "S1, part two, 12.3; S3, algorithm 1, failure modes") {
  const float highest = 90;
  const float subtracted = std::exp(highest - highest), plain = std::exp(highest);
  return {
      "The running maximum, sum and output must be f32, whatever the inputs are; otherwise exp "
      "overflows.",
      "They must be f32, though for another reason. No exp can overflow once the maximum is "
      "subtracted: the largest is {5}, and bf16 reaches as far as f32 anyway. In f16 the sum can: "
      "{6} blocks of 2,048 equal keys are enough. What goes wrong before that is precision, "
      "because small addends vanish: the sum of 1,000 equal keys stops at {4} in bf16. "
      "Merging 64 blocks into a bf16 state errs by more than 0.001 on average, into an f32 one by "
      "less than a millionth.",
      {Figure("mean error, 1,024 keys in 64 blocks, f32 state", mean_error(64, DType::f32),
              at_most(1e-6), {"f16 state", mean_error(64, DType::f16)}, "enough", Shown::bound),
       Figure("the same, bf16 state", mean_error(64, DType::bf16), at_least(1e-3),
              {"f32 state", mean_error(64, DType::f32)}, "not enough", Shown::bound),
       Figure("the same in 8 blocks, as 8 ranks have, bf16 state", mean_error(8, DType::bf16),
              at_least(2e-4), {"f32 state", mean_error(8, DType::f32)}, "not enough", Shown::bound),
       Figure("the same key by key, a bf16 accumulator", mean_error(1024, DType::bf16),
              at_least(5e-3), {"f32 accumulator", mean_error(1024, DType::f32)}, "not enough",
              Shown::bound),
       Figure("sum of 1,000 ones, one by one, bf16", sum_of_ones(1000, DType::bf16), exactly(256),
              {"f32", sum_of_ones(1000, DType::f32)}, "not enough"),
       Figure("largest exp of a row whose highest score is 90, maximum subtracted", subtracted,
              exactly(1), {"not subtracted, f32", plain}, refuted("overflow")),
       Figure("blocks of 2,048 equal keys until the sum overflows, f16",
              blocks_until_overflow(DType::f16), exactly(32),
              {"f32, not in 1,000", blocks_until_overflow(DType::f32)}, "overflow")}};
}

CLAIM(C47, OnlyNarrowAccumulatorsLosePrecisionByMerging, holds_if, "S3", "Section 14") {
  const auto growth = [](DType state, std::size_t from) {
    return mean_error(1024, state) / mean_error(from, state);
  };
  return {"Partial sums lose precision with every merge, so very long sequences suffer.",
          "In 16 bits they do: from 16 to 1,024 merges of the same keys the error of a bf16 state "
          "grows more than tenfold. In f32 it stays below a millionth at 1,024 merges.",
          {Figure("mean error, 1,024 merges over 16, bf16 state", growth(DType::bf16, 16),
                  at_least(10), {"over 1,024", growth(DType::bf16, 1024)}, "grows", Shown::bound),
           Figure("mean error after 1,024 merges, f32 state", mean_error(1024, DType::f32),
                  at_most(1e-6), {"f16 state", mean_error(1024, DType::f16)}, refuted("suffers"),
                  Shown::bound)}};
}

}  // namespace
}  // namespace ringscope::claims
