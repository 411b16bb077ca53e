// Searched partitions: whole, the same every time, and never worse than a fixed one.
#include "core/tools/sim/work.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringscope {
namespace searched_test {

Problem job_of(Index seqlen, int world_size, const std::string& mask) {
  Problem job;
  job.shape.seqlen = seqlen;
  job.world_size = world_size;
  job.mask = MaskSpec::parse(mask);
  job.partition = PartitionSpec::parse("searched");
  return job;
}

double slowest_steps(const Problem& job, Granularity tile) {
  return balance_of(Work(job, tile), job.speeds).slowest_steps();
}

// Return all deals that need no search.
std::vector<PartitionSpec> fixed_deals(const Problem& job) {
  std::vector<PartitionSpec> deals;
  for (const char* name :
       {"contiguous", "striped", "zigzag", "fold", "documents:contiguous", "documents:zigzag"}) {
    Problem tried = job;
    tried.partition = PartitionSpec::parse(name);
    if (tried.partition == PartitionKind::dealt &&
        job.mask.name().find("documents") == std::string::npos)
      continue;
    tried.deal_out();
    deals.push_back(tried.partition);
  }
  return deals;
}

void expect_best(Problem job, Granularity tile) {
  deal_out(job, tile);
  const double found = slowest_steps(job, tile);
  for (const PartitionSpec& fixed : fixed_deals(job)) {
    Problem other = job;
    other.partition = fixed;
    EXPECT_LE(found, slowest_steps(other, tile))
        << job.mask.name() << " of " << job.shape.seqlen << " on " << job.world_size << ", "
        << fixed.name();
  }
}

TEST(Searched, IsNeverWorseThanAFixedDeal) {
  for (const char* mask :
       {"full", "causal", "window:70", "causal+window:33", "prefix:50", "documents:7,150,143",
        "causal+documents:100,28,1,171", "prefix:90+documents:200,100", "causal+window:20+sink:9"})
    for (const int n : {1, 3, 8})
      for (const Granularity tile : {Granularity{1, 1}, {8, 16}}) {
        Problem job = job_of(300, n, mask);
        expect_best(job, tile);
        for (int rank = 0; rank < n; ++rank) job.speeds.push_back(rank % 3 == 2 ? 0.5 : 1);
        expect_best(job, tile);
      }
  for (const char* mask : {"causal+window:700", "causal+documents:5000,3000,192", "prefix:2048"})
    for (const int n : {4, 8}) expect_best(job_of(8192, n, mask), {128, 128});
}

// So few positions that chunks can't be dealt out evenly.
TEST(Searched, IsAsEvenAsFixedDealsOfAShortFullMask) {
  for (const Index seqlen : {24, 96, 256})
    for (const int n : {2, 3, 4, 8}) {
      if (seqlen % n != 0) continue;
      Problem job = job_of(seqlen, n, "full");
      deal_out(job, {});
      EXPECT_EQ(balance_of(Work(job)).ceiling(), 1) << seqlen << " on " << n;
    }
}

TEST(Searched, HasEveryPositionOnce) {
  for (const Index seqlen : {1, 5, 97, 300})
    for (const int n : {1, 2, 3, 8, 13}) {
      Problem job = job_of(seqlen, n, "causal+window:20");
      deal_out(job, {4, 4});
      EXPECT_EQ(job.partition.name(), "searched");
      std::vector<int> holders(static_cast<std::size_t>(seqlen));
      for (int rank = 0; rank < n; ++rank) {
        const LocalRows rows = job.partition_of_sequence().rows_of(rank);
        for (Index i = 0; i < rows.size(); ++i)
          ++holders[static_cast<std::size_t>(rows.global_position(i))];
      }
      EXPECT_EQ(holders, std::vector<int>(holders.size(), 1)) << seqlen << " on " << n;
    }
}

// Whole tiles, which no fixed partition deals out evenly.
TEST(Searched, GainsUnderMasksThatNoFixedDealWasMadeFor) {
  for (const char* mask :
       {"causal+window:4000", "causal+documents:13000,9000,7000,2000,1000,768"}) {
    Problem job = job_of(32768, 8, mask);
    deal_out(job, {128, 128});
    EXPECT_EQ(job.partition.found(), "greedy") << mask;
    EXPECT_GT(balance_of(Work(job, {128, 128})).ceiling(), 0.91) << mask;
  }
}

TEST(Searched, LetsRanksOfUnequalSpeedEndTogether) {
  const std::vector<double> all_speeds[] = {
      {1, 0.5}, {1, 1, 0.5}, {2, 1, 3, 0.5}, {1, 1, 1, 1, 1, 1, 0.9, 0.9}};
  for (const std::vector<double>& speeds : all_speeds) {
    Problem job = job_of(8192, static_cast<int>(speeds.size()), "causal");
    job.speeds = speeds;
    deal_out(job, {64, 64});
    const Balance balance = balance_of(Work(job, {64, 64}), speeds);
    EXPECT_LE(balance.slowest_rank, 1.1 * balance.mean_rank) << testing::PrintToString(speeds);
  }
}

TEST(Searched, DependsOnTheJobAlone) {
  const auto dealt = [](const std::vector<double>& speeds) {
    Problem job = job_of(3000, 3, "causal+window:330");
    job.speeds = speeds;
    deal_out(job, {});
    return job.partition.numbers();
  };
  EXPECT_EQ(dealt({}), dealt({}));
  EXPECT_EQ(dealt({}), dealt({0.5, 0.5, 0.5}));
  EXPECT_NE(dealt({}), dealt({0.5, 1, 1}));
}

}  // namespace searched_test
}  // namespace ringscope
