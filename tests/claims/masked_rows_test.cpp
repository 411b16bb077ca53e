// Tests rows for which a whole block is masked, where S1's listings form -inf - -inf.
#include <algorithm>
#include <cmath>

#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"
#include "tests/claims/rows.h"

namespace ringscope::claims {
namespace {

enum class Guard { none, empty_blocks_skipped };

struct RowResult {
  double l, out;
};

// Compute S1's reference forward for the query at `position` on `rank`: the maximum of each block,
// exp of the scores less that maximum, then the merge, all in the ring's order, under a causal
// mask.
RowResult s1_forward(const Partition& partition, int rank, Index position, const Row& keys,
                     Guard guard) {
  const int n = partition.world_size;
  double m = kMinusInf, l = 0, o = 0;
  for (int step = 0; step < n; ++step) {
    const LocalRows block = partition.rows_of((rank - step + n) % n);
    double m_block = kMinusInf;
    const auto score = [&](Index j) {
      const Index at = block.global_position(j);
      return at <= position ? keys.scores[static_cast<std::size_t>(at)] : kMinusInf;
    };
    for (Index j = 0; j < block.size(); ++j) m_block = std::max(m_block, score(j));
    if (guard == Guard::empty_blocks_skipped && m_block == kMinusInf) continue;
    double l_block = 0, o_block = 0;
    for (Index j = 0; j < block.size(); ++j) {
      const double p = std::exp(score(j) - m_block);
      l_block += p;
      o_block += p * keys.values[static_cast<std::size_t>(block.global_position(j))];
    }
    const double merged = std::max(m, m_block);
    const double alpha = std::exp(m - merged), beta = std::exp(m_block - merged);
    l = alpha * l + beta * l_block;
    o = alpha * o + beta * o_block;
    m = merged;
  }
  return {l, o};
}

// Clamp as torch.clamp does: a NaN stays one.
double clamped(double l) { return l < 1e-6 ? 1e-6 : l; }

// Count the rows of 16 tokens on 4 ranks that come out as NaN in spite of the clamp.
double nan_rows(PartitionKind kind, Guard guard) {
  const Partition partition{kind, 16, 4};
  const Row keys = random_row(16, 11);
  double count = 0;
  for (int rank = 0; rank < 4; ++rank)
    for (Index i = 0; i < 4; ++i) {
      const Index position = partition.rows_of(rank).global_position(i);
      const RowResult row = s1_forward(partition, rank, position, keys, guard);
      count += std::isnan(row.out / clamped(row.l)) ? 1 : 0;
    }
  return count;
}

double nan_values_of_a_run() {
  const RingRun run = recorded_run(config_of(1, 1, 16, 1, 4, "causal", kFold));
  return count_nan(run.outputs.out);
}

CLAIM(C11, AMaskedBlockMakesItsRowNan, wrong, "S1", "part two, 5, and the same formulas in 6") {
  Claim claim{
      "The reference forward (block maximum, exp, merge) is complete and gives the exact output.",
      "For a row that a whole block is masked for, the block's maximum is -inf, and exp(-inf - "
      "-inf) is NaN, for good. In its own example, 16 tokens on 4 ranks, that happens to {0} of "
      "the 16 rows if ranks are contiguous, {1} striped, {2} in 2N chunks and {3} folded, which is "
      "S1's own partition. The listing has a comment about a guard, and no guard. It needs one: "
      "pass over a block in which the row has no key."};
  const auto rows = [&](PartitionKind kind, const char* name, double expected) {
    claim.figures.push_back(Figure(
        std::string("NaN rows of 16, ") + name, nan_rows(kind, Guard::none), exactly(expected),
        {"masked blocks skipped", nan_rows(kind, Guard::empty_blocks_skipped)}, 0));
  };
  // A row lacks keys of a block when it lies before the block's first position.
  rows(kContiguous, "contiguous", 12);
  rows(kStriped, "striped", 3);
  rows(kZigzag, "2N chunks", 6);
  rows(kFold, "folded", 3);
  claim.figures.push_back(Figure("NaN in this project's run of the same, folded",
                                 nan_values_of_a_run(), exactly(0),
                                 {"S1's forward", nan_rows(kFold, Guard::none)}));
  return claim;
}

// Count the rows, of 64 under a causal mask, whose sum the clamp would change. With `own_maximum`
// the unit of l is the row's largest score, otherwise that of all rows, as a fixed shift would be.
double rows_that_the_clamp_changes(bool own_maximum) {
  Row keys = random_row(64, 12);
  for (double& s : keys.scores) s *= 8;
  const double largest = *std::ranges::max_element(keys.scores);
  double count = 0, m = kMinusInf;
  for (std::size_t i = 0; i < 64; ++i) {
    m = std::max(m, keys.scores[i]);
    double l = 0;
    for (std::size_t j = 0; j <= i; ++j)
      l += std::exp(keys.scores[j] - (own_maximum ? m : largest));
    count += clamped(l) != l ? 1 : 0;
  }
  return count;
}

CLAIM(C12, ClampHelpsOnlyRowsThatNeverMetAMask, holds_if, "S1",
      "part two, 12.3, and the listings in 5 and 7") {
  const double nothing = 0;
  return {
      "Clamping l to at least 1e-6 before the division takes care of rows whose keys are all "
      "masked.",
      "It turns 0 / 0 into 0 where nothing was NaN before, and changes no row that has a key: its "
      "largest score alone adds exp(0) = 1 to l. But by S1's own formulas a row that meets a fully "
      "masked block is NaN long before the division (C11), and a NaN passes the clamp: {2} rows "
      "stay NaN in its example.",
      {Figure("rows of 64 with a key that the clamp changes", rows_that_the_clamp_changes(true),
              exactly(0), {"l against the maximum of all rows", rows_that_the_clamp_changes(false)},
              0),
       Figure("output of a row that attended nothing: 0 / clamp(0)", nothing / clamped(nothing),
              exactly(0), {"no clamp", nothing / nothing}, 0),
       Figure("rows of 16 that are NaN after the clamp, folded on 4 ranks",
              nan_rows(kFold, Guard::none), exactly(3),
              {"masked blocks skipped", nan_rows(kFold, Guard::empty_blocks_skipped)}, 0)}};
}

}  // namespace
}  // namespace ringscope::claims
