// Times of a layer: properties, thresholds, limits and choices. (Their sums are those of the simulation in
// step: tests/core/tools/sim.)
#include "core/tools/cost/time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/tools/cost/amounts.h"
#include "core/tools/cost/choices.h"
#include "tests/core/base/thrown.h"
#include "tests/schemes.h"

namespace ringscope {
namespace {

constexpr const char* kMasks[] = {"full",      "causal",     "causal+window:300",
                                  "window:40", "prefix:500", "causal+documents:700,323"};

// In which neither computing nor sending always wins.
const Rates kRates{1e10, 8e9, 4e7, 2e-4};

Problem job_of(const char* mask, PartitionKind partition, int n,
               const Scheme* scheme = scheme_named("ring")) {
  return {.shape = {2, 8, 4, 1023, 16},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = n,
          .scheme = scheme,
          .backward = true};
}

template <class F>
void for_jobs(F&& f) {
  for (const char* mask : kMasks)
    for (const PartitionKind partition : kAllPartitions)
      for (const Scheme* scheme : kAllSchemes)
        for (const int n : {1, 2, 4}) {
          SCOPED_TRACE(testing::Message() << mask << ", " << name_of(partition) << ", "
                                          << name_of(scheme) << ", " << n << " ranks");
          f(job_of(mask, partition, n, scheme));
        }
}

TEST(LayerTime, IsNeverBelowTheMeanWorkNorNegativeInAPart) {
  for_jobs([](const Problem& job) {
    const LayerTime time = layer_time(job, balance_of(job), kRates);
    for (const PassTime* pass : {&time.forward, &time.backward}) {
      EXPECT_GE(pass->imbalance, 0);
      EXPECT_GE(pass->exposed, 0);
      EXPECT_GT(pass->compute, 0);
    }
    const double ideal =
        flops_of_pairs(job.shape, total_pairs(job), Pass::forward) / kRates.forward_flops;
    EXPECT_NEAR(time.forward.compute, ideal / job.world_size, 1e-12);
  });
}

// At the threshold nothing is exposed but the last gradient's hop, and just below something is.
TEST(Threshold, IsWhereCommunicationHides) {
  for (const Pass pass : {Pass::forward, Pass::backward})
    for (const double latency : {0.0, 3e-3}) {
      const Rates rates{1e10, 8e9, 4e7, latency};
      const auto job_with = [](double rows) {
        Problem job = job_of("full", PartitionKind::contiguous, 4);
        job.shape.seqlen = 4 * static_cast<Index>(rows);
        return job;
      };
      const double rows = threshold_rows(job_with(1), rates, pass, 1);
      const auto exposed = [&](double at) {
        const Problem job = job_with(at);
        const LayerTime time = layer_time(job, balance_of(job), rates);
        const double last = hop_seconds(job, rates, Pass::backward, at) -
                            hop_seconds(job, rates, Pass::forward, at);
        return pass == Pass::forward ? time.forward.exposed : time.backward.exposed - last;
      };
      EXPECT_NEAR(exposed(std::ceil(rows)), 0, 1e-12);
      EXPECT_GT(exposed(std::floor(rows) - 1), 1e-9);
    }
}

TEST(Threshold, IsInfiniteWhereNothingIsComputed) {
  const Problem job = job_of("causal+window:3", PartitionKind::contiguous, 8);
  EXPECT_EQ(least_share(job, balance_of(job)), 0);
  EXPECT_TRUE(std::isinf(threshold_rows(job, kRates, Pass::forward, 0)));
}

TEST(Limits, LargestSeqlenFitsAndTheNextDoesNot) {
  for_jobs([](Problem job) {
    job.mask = {};
    job.layers = 3;
    const double memory = 5e6;
    job.shape.seqlen = largest_seqlen(job, memory);
    ASSERT_GT(job.shape.seqlen, 0);
    EXPECT_LE(peak_bytes(job), memory);
    ++job.shape.seqlen;
    EXPECT_GT(peak_bytes(job), memory);
  });
  EXPECT_EQ(largest_seqlen(job_of("full", PartitionKind::contiguous, 4), 10), 0);
}

TEST(Limits, SmallestWorldSizeFitsAndOneLessDoesNot) {
  for_jobs([](Problem job) {
    if (job.scheme == scheme_named("ulysses")) return;
    for (const double share : {0.2, 0.5, 0.9, 1.0}) {
      job.world_size = 1;
      const double memory = share * peak_bytes(job);
      const std::optional<int> smallest = smallest_world_size(job, memory);
      job.world_size = 1023;
      if (peak_bytes(job) > memory) {
        EXPECT_FALSE(smallest);
        continue;
      }
      ASSERT_TRUE(smallest);
      for (int n = 1; n <= *smallest; ++n) {
        job.world_size = n;
        EXPECT_EQ(peak_bytes(job) <= memory, n == *smallest) << n;
      }
    }
  });
}

TEST(Layers, KeepQKVOAndRowStatisticsForTheBackward) {
  Problem job = job_of("full", PartitionKind::contiguous, 4);
  const double one = peak_bytes(job);
  job.layers = 3;
  const double layer = 2.0 * 256 * 16 * (8 + 4 + 4 + 8) * 2 + 2.0 * 256 * 8 * (4 + 8);
  EXPECT_EQ(peak_bytes(job), one + 2 * layer);
  job.backward = false;
  const double forward_of_three = peak_bytes(job);
  job.layers = 1;
  EXPECT_EQ(peak_bytes(job), forward_of_three);
}

std::vector<Choice> all_choices(const Problem& job, const Rates& rates, double memory_bytes) {
  std::vector<Choice> choices;
  for (const Problem& way : all_ways(job))
    choices.push_back(judge(way, balance_of(way), rates, memory_bytes));
  return choices;
}

TEST(Choices, TheBestIsWithinOnePercentOfTheFastestThatFits) {
  for (const char* mask : kMasks) {
    const auto choices = all_choices(job_of(mask, PartitionKind::contiguous, 4), kRates, 1e12);
    ASSERT_EQ(choices.size(), 9u);
    const auto best = best_choice(choices);
    ASSERT_TRUE(best);
    for (const Choice& choice : choices)
      EXPECT_LE(choices[*best].time.total(), 1.01 * choice.time.total());
  }
}

TEST(Choices, CausalAsksForABalancedPartitionAndFullForAnyPartition) {
  const Rates plenty{1e10, 1e10, 1e12, 0};
  const auto best_of = [&](const char* mask) {
    const auto choices = all_choices(job_of(mask, PartitionKind::contiguous, 4), plenty, 1e12);
    return choices[*best_choice(choices)].job.partition;
  };
  EXPECT_EQ(best_of("causal"), PartitionKind::zigzag);
  EXPECT_EQ(best_of("full"), PartitionKind::contiguous);
}

TEST(Choices, WhatDoesNotFitIsNotTheBest) {
  const Problem job = job_of("causal", PartitionKind::contiguous, 4);
  const auto choices = all_choices(job, kRates, peak_bytes(job));
  for (const Choice& choice : choices) {
    ASSERT_EQ(choice.obstacle.has_value(), choice.peak_bytes > peak_bytes(job));
    if (choice.obstacle) expect_contains(*choice.obstacle, "memory");
  }
  EXPECT_EQ(choices[*best_choice(choices)].job.scheme, scheme_named("ring"));
  EXPECT_FALSE(best_choice(all_choices(job, kRates, 10)));
}

}  // namespace
}  // namespace ringscope
