// Tests the predictions of lessons/predicted.md for runs that others measured.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "core/sim/searched.h"
#include "core/sim/simulate.h"
#include "tests/claims/jobs.h"
#include "tests/claims/predicted_page.h"

namespace ringscope::claims {
namespace {

const std::vector<EightGpus>& eight() {
  static const std::vector<EightGpus> all = eight_gpus();
  return all;
}
const std::vector<StripedSpeedup>& striped() {
  static const std::vector<StripedSpeedup> all = striped_speedups();
  return all;
}
const std::vector<SearchedGain>& gains() {
  static const std::vector<SearchedGain> all = searched_gains();
  return all;
}

TEST(EightGpus, BalanceExplainsContiguousRanksAndNoOthers) {
  ASSERT_EQ(eight().size(), 4u);
  for (const EightGpus& one : eight()) {
    EXPECT_NEAR(one.balance.contiguous, 8.0 / 15, 1e-4);
    EXPECT_NEAR(one.balance.zigzag, 1, 1e-9);
    EXPECT_NEAR(one.balance.striped, 1, 1e-3);
    EXPECT_NEAR(one.published.contiguous, one.balance.contiguous, 0.02);
    EXPECT_LT(one.published.zigzag, one.balance.zigzag - 0.1);
    EXPECT_LT(one.published.striped, one.published.zigzag);
  }
}

// Whole tiles: 2,080 on a causal block of 64 x 64, 4,096 on a whole one, 2,048 on half of one.
TEST(EightGpus, TilesAndLinkAreSimulated) {
  for (const EightGpus& one : eight()) {
    if (!one.backward) {
      EXPECT_NEAR(one.tiles.contiguous, 8 * 2080.0 / (2080 + 7 * 4096), 1e-9);
      EXPECT_NEAR(one.tiles.zigzag, 8 * 2080.0 / (2080 + 7 * 2048), 1e-9);
      EXPECT_NEAR(one.tiles.striped, 1, 1e-9);
    }
    EXPECT_LT(one.hop_s, 0.11 * one.step_s);  // hidden many times over
  }
}

TEST(EightGpus, TwoCostsFittedToTwoPartitionsPredictTheThird) {
  for (const EightGpus& one : eight()) {
    const double tolerance = one.backward ? 0.01 : 1e-6;  // the fit knows of no hops
    EXPECT_NEAR(one.with_costs.contiguous, one.published.contiguous, tolerance);
    EXPECT_NEAR(one.with_costs.zigzag, one.published.zigzag, tolerance);
    EXPECT_NEAR(one.with_costs.striped, one.published.striped, 0.035);
    for (const StepCosts& costs : {one.forward_costs, one.backward_costs}) {
      EXPECT_GT(costs.full_speed, 1.05);
      EXPECT_LT(costs.full_speed, 1.25);
      EXPECT_GT(costs.step_s, 0.5e-3);
      EXPECT_LT(costs.step_s, 1.15e-3);
    }
  }
}

// From table 3 and 4 of the paper.
TEST(StripedPaper, LimitsAreThePapersAndTilesLieBetween) {
  ASSERT_EQ(striped().size(), 10u);
  for (const StripedSpeedup& one : striped()) {
    EXPECT_NEAR(one.limit, one.published_limit, 0.025) << one.machine << " " << one.seqlen;
    EXPECT_LE(one.in_tiles, one.limit) << one.machine << " " << one.seqlen;
    if (one.seqlen / one.ring > 4096) {
      EXPECT_GE(one.in_tiles, one.published) << one.machine << " " << one.seqlen;
    }
  }
  EXPECT_EQ(striped()[0].in_tiles, 1);  // a block is one tile wide
  EXPECT_NEAR(striped()[4].in_tiles, 1.62, 0.005);
  EXPECT_NEAR(striped()[9].in_tiles, 1.80, 0.005);
}

TEST(StripedPaper, WhatIsMissingShrinksAsSequencesGrow) {
  for (std::size_t i = 1; i < striped().size(); ++i) {
    const StripedSpeedup &before = striped()[i - 1], &here = striped()[i];
    if (before.machine == here.machine && before.missing > 0) {
      EXPECT_LT(here.missing, before.missing) << here.machine << " " << here.seqlen;
    }
  }
}

// Counted in tiles, on a ring that keeps step, the simulator and the formula agree.
TEST(SearchedGains, FormulaAndSimulationAgree) {
  const Rates rates = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  Problem job = job_of(32, 8, 131072, 8, "causal+documents:50000,40000,20000,15000,6072");
  job.partition = PartitionSpec::parse(kSearched);
  deal_out(job, {128, 128});
  const Work work(job, {128, 128});
  Machine machine;
  machine.world_size = 8;
  machine.rates = rates;
  EXPECT_EQ(simulate({.job = job}, work, machine).wall_s(),
            layer_time(job, balance_of(work), rates).total());
}

TEST(SearchedGains, IsNeverSlowerThanTheBestFixedPartition) {
  for (const SearchedGain& gain : gains()) {
    ASSERT_EQ(gain.fixed.size(), 4u);
    EXPECT_LE(gain.searched.time.total(), gain.best_fixed().time.total()) << gain.mask;
    EXPECT_GE(gain.searched.balance.ceiling(), gain.world_size == 8 ? 0.98 : 0.64) << gain.mask;
  }
  EXPECT_EQ(gains()[0].searched.time.total(), gains()[0].fixed[2].time.total());  // zigzag
  const auto gained = [](const SearchedGain& gain) {
    return gain.best_fixed().time.total() / gain.searched.time.total();
  };
  EXPECT_GT(gained(gains()[2]), 1.09);  // a causal window
  EXPECT_GT(gained(gains()[6]), 1.12);  // in documents
}

TEST(Predicted, ThePageIsTheCommittedOne) {
  std::ifstream file(RINGSCOPE_SOURCE_DIR "/lessons/predicted.md", std::ios::binary);
  const std::string committed{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(predicted_page(eight(), striped(), gains()), committed)
      << "write it with: claims_tests --predicted lessons/predicted.md";
}

}  // namespace
}  // namespace ringscope::claims
