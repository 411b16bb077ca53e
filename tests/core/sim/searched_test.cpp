// Searched partitions: whole, counted right, and never worse than what they start from.
#include "core/sim/search/searched.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/sim/search/ring_deal.h"

namespace ringscope {
namespace searched_test {

constexpr const char* kMasks[] = {"full",
                                  "causal",
                                  "window:70",
                                  "causal+window:33",
                                  "prefix:50",
                                  "causal+documents:100,28,1,171",
                                  "documents:7,150,143",
                                  "prefix:90+documents:200,100"};

Problem job_of(Index seqlen, int world_size, const std::string& mask) {
  Problem job;
  job.shape.seqlen = seqlen;
  job.world_size = world_size;
  job.mask = MaskSpec::parse(mask);
  return job;
}

SearchRequest small(const Problem& job, Granularity granularity, Index chunk_rows,
                    int exchanges = 2000) {
  return {.job = job,
          .granularity = granularity,
          .least_chunk_rows = chunk_rows,
          .exchanges = exchanges};
}

// Local rows of a rank, as positions.
std::vector<Index> rows_of(const SearchedPartition& found, int rank) {
  std::vector<Index> rows;
  for (const Interval positions : found.positions_of(rank))
    for (Index i = positions.first; i < positions.last; ++i) rows.push_back(i);
  return rows;
}

TEST(Searched, HasEveryPositionOnce) {
  for (const Index seqlen : {1, 5, 97, 300})
    for (const int n : {1, 2, 3, 8, 13})
      for (const Index chunk : {1, 4, 16}) {
        const SearchedPartition found =
            search_partition(small(job_of(seqlen, n, "causal+window:20"), {}, chunk, 300));
        std::vector<int> holders(static_cast<std::size_t>(seqlen));
        std::vector<int> chunks(static_cast<std::size_t>(n));
        for (const int rank : found.rank_of_chunk) ++chunks[static_cast<std::size_t>(rank)];
        for (int rank = 0; rank < n; ++rank) {
          const std::vector<Index> rows = rows_of(found, rank);
          EXPECT_TRUE(std::ranges::is_sorted(rows));
          EXPECT_EQ(std::ssize(rows), found.work.rows(rank));
          for (const Index position : rows) ++holders[static_cast<std::size_t>(position)];
        }
        EXPECT_EQ(holders, std::vector<int>(holders.size(), 1)) << seqlen << " on " << n;
        const auto [fewest, most] = std::ranges::minmax(chunks);
        EXPECT_LE(most - fewest, 1) << seqlen << " on " << n;
      }
}

// Pairs, and what tiles of local rows compute for them, counted one by one.
WorkAmount counted(const Mask& mask, const std::vector<Index>& queries,
                   const std::vector<Index>& keys, Granularity granularity) {
  WorkAmount amount;
  for (std::size_t begin = 0; begin < queries.size();
       begin += static_cast<std::size_t>(granularity.rows)) {
    const std::size_t end =
        std::min(begin + static_cast<std::size_t>(granularity.rows), queries.size());
    for (std::size_t first = 0; first < keys.size();
         first += static_cast<std::size_t>(granularity.keys)) {
      const std::size_t last =
          std::min(first + static_cast<std::size_t>(granularity.keys), keys.size());
      double pairs = 0;
      for (std::size_t i = begin; i < end; ++i)
        for (std::size_t j = first; j < last; ++j) pairs += mask.allows(queries[i], keys[j]);
      amount.pairs += pairs;
      if (pairs > 0) amount.computed += static_cast<double>((end - begin) * (last - first));
    }
  }
  return amount;
}

TEST(Searched, CountsWhatPositionsSay) {
  for (const char* mask : kMasks)
    for (const Granularity granularity : {Granularity{1, 1}, {8, 16}, {16, 4}}) {
      const Problem job = job_of(300, 4, mask);
      const SearchedPartition found = search_partition(small(job, granularity, 16));
      const Mask by_position = job.mask.for_seqlen(300);
      for (int rank = 0; rank < 4; ++rank)
        for (int owner = 0; owner < 4; ++owner) {
          const WorkAmount right =
              counted(by_position, rows_of(found, rank), rows_of(found, owner), granularity);
          EXPECT_EQ(found.work.pairs(rank, owner), right.pairs) << mask;
          EXPECT_EQ(found.work.computed_pairs(rank, owner), right.computed) << mask;
        }
      EXPECT_EQ(balance_of(found.work).slowest_steps(), found.slowest) << mask;
    }
}

TEST(Searched, IsNeverWorseThanItsStartNorThanItsBound) {
  for (const char* mask : kMasks)
    for (const int n : {1, 2, 3, 5, 8}) {
      const SearchedPartition found = search_partition(small(job_of(300, n, mask), {4, 4}, 4));
      EXPECT_LE(found.slowest, found.start_slowest) << mask << " on " << n;
      EXPECT_GE(found.slowest, found.least_slowest) << mask << " on " << n;
      EXPECT_GE(found.least_slowest, balance_of(found.work).mean_rank) << mask << " on " << n;
    }
}

// At the tiles that it was searched for.
TEST(Searched, IsAtLeastAsGoodAsTheFixedPartitions) {
  for (const char* mask :
       {"full", "causal", "window:1024", "causal+window:1024", "causal+window:700", "prefix:2048",
        "prefix:2000+causal", "causal+documents:4096,2048,1024,1024", "documents:3000,5000,192",
        "causal+documents:5000,3000,192"})
    for (const int n : {2, 4, 8}) {
      Problem job = job_of(8192, n, mask);
      const Granularity tiles{128, 128};
      const double found =
          search_partition({.job = job, .granularity = tiles, .exchanges = 20000}).slowest;
      for (const PartitionKind kind : kAllPartitions) {
        job.partition = kind;
        EXPECT_LE(found, balance_of(Work(job, tiles)).slowest_steps())
            << mask << " on " << n << ", " << name_of(kind);
      }
    }
}

// Cases that tiles can share out evenly.
TEST(Searched, ReachesItsBoundWhereThatCanBe) {
  for (const char* mask : {"full", "causal", "causal+window:4096", "window:4096", "prefix:8192",
                           "documents:16384,8192,4096,4096"}) {
    const SearchedPartition found =
        search_partition({.job = job_of(32768, 8, mask), .granularity = {128, 128}});
    EXPECT_EQ(found.slowest, found.least_slowest) << mask;
  }
  const SearchedPartition uneven =
      search_partition({.job = job_of(32768, 8, "causal+documents:13000,9000,7000,2000,1000,768"),
                        .granularity = {128, 128},
                        .exchanges = 100'000});
  EXPECT_LE(uneven.slowest, 1.02 * uneven.least_slowest);
  EXPECT_LT(uneven.slowest, 0.99 * uneven.start_slowest);
}

// The least cost of all ways to give every rank as many chunks.
double least_of_all(const ChunkWork& work, int n) {
  std::vector<int> rank_of;
  for (int chunk = 0; chunk < work.chunks(); ++chunk)
    rank_of.push_back(chunk / (work.chunks() / n));
  double least = RingDeal(work, n, rank_of).cost().slowest;
  while (std::ranges::next_permutation(rank_of).found)
    least = std::min(least, RingDeal(work, n, rank_of).cost().slowest);
  return least;
}

TEST(Searched, FindsTheBestOfAllWhereAllCanBeTried) {
  for (const char* mask : {"causal", "causal+window:3", "prefix:5", "causal+documents:5,2,3,6,2",
                           "documents:1,9,3,5", "window:4+documents:11,7"})
    for (const int n : {2, 3}) {
      const Problem job = job_of(18, n, mask);
      const Index rows = n == 2 ? 2 : 3;  // 9 chunks and a spare one, or 6
      const SearchedPartition found = search_partition(
          {.job = job, .granularity = {rows, rows}, .least_chunk_rows = rows, .exchanges = 5000});
      const Chunks chunks(job.mask.for_seqlen(18), rows, {rows, rows});
      ChunkWork work(static_cast<int>(round_up(chunks.count(), n)));
      for (int q = 0; q < chunks.count(); ++q)
        for (int k = 0; k < chunks.count(); ++k)
          work.set(q, k, static_cast<double>(chunks.computed_pairs(q, k)));
      EXPECT_EQ(found.slowest, least_of_all(work, n)) << mask << " on " << n;
    }
}

TEST(Searched, IsTheSameEveryTimeAndOtherwiseWithAnotherSeed) {
  SearchRequest request = small(job_of(300, 4, "causal+documents:100,28,1,171"), {}, 4, 500);
  const std::vector<int> found = search_partition(request).rank_of_chunk;
  EXPECT_EQ(search_partition(request).rank_of_chunk, found);
  request.seed = 1;
  EXPECT_NE(search_partition(request).rank_of_chunk, found);
}

TEST(Searched, RefusesWhatItIsNotMadeFor) {
  EXPECT_THROW(search_partition({.job = job_of(4096, kMostSearchedRanks + 1, "causal")}),
               InputError);
  EXPECT_THROW(search_partition({.job = job_of(300, 2, "documents:100,100")}), InputError);
  EXPECT_THROW(search_partition({.job = job_of(300, 2, "full"), .granularity = {0, 1}}),
               InputError);
  for (const std::vector<double>& speeds :
       {std::vector<double>{1}, {1, 1, 1}, {1, 0}, {1, -1}, {1, NAN}, {1, INFINITY}, {1, 1e-320}}) {
    Problem job = job_of(300, 2, "full");
    job.speeds = speeds;
    EXPECT_THROW(search_partition({.job = job}), InputError) << testing::PrintToString(speeds);
  }
}

// The cost and its bound are what their definitions say, and no fixed partition is better.
TEST(Searched, LetsRanksOfUnequalSpeedEndTogether) {
  const std::vector<double> all_speeds[] = {
      {1, 0.5}, {1, 1, 0.5}, {2, 1, 3, 0.5}, {1, 1, 1, 1, 1, 1, 0.9, 0.9}};
  for (const char* mask : {"full", "causal", "causal+window:1500"})
    for (const std::vector<double>& speeds : all_speeds) {
      SCOPED_TRACE(std::string(mask) + " " + testing::PrintToString(speeds));
      const int n = static_cast<int>(speeds.size());
      Problem job = job_of(8192, n, mask);
      job.speeds = speeds;
      const SearchedPartition found = search_partition(
          {.job = job, .granularity = {64, 64}, .least_chunk_rows = 64, .exchanges = 20'000});
      double all = 0, all_speed = 0, slowest = 0, last = 0;
      Index rows = 0;
      for (int step = 0; step < n; ++step) {
        double longest = 0;
        for (int rank = 0; rank < n; ++rank)
          longest = std::max(longest, found.work.computed_pairs(rank, (rank - step + n) % n) /
                                          speeds[static_cast<std::size_t>(rank)]);
        slowest += longest;
      }
      for (int rank = 0; rank < n; ++rank) {
        double mine = 0;
        for (int owner = 0; owner < n; ++owner) mine += found.work.computed_pairs(rank, owner);
        all += mine;
        all_speed += speeds[static_cast<std::size_t>(rank)];
        last = std::max(last, mine / speeds[static_cast<std::size_t>(rank)]);
        rows += found.work.rows(rank);
      }
      EXPECT_EQ(rows, 8192);
      EXPECT_DOUBLE_EQ(found.slowest, slowest);
      EXPECT_DOUBLE_EQ(found.least_slowest, all / all_speed);
      EXPECT_DOUBLE_EQ(balance_of(found.work, speeds).slowest_steps(), slowest);
      // Under a causal mask chunks differ enough for that; under others a ring's steps don't allow it.
      if (std::string_view(mask) == "causal") {
        EXPECT_LE(last, 1.05 * found.least_slowest);
      }
      for (const PartitionKind kind : kAllPartitions) {
        job.partition = kind;
        EXPECT_LE(found.slowest, balance_of(Work(job, {64, 64}), speeds).slowest_steps());
      }
    }
}

TEST(Searched, EqualSpeedsChangeNothing) {
  Problem job = job_of(300, 3, "causal+window:33");
  const std::vector<int> without = search_partition(small(job, {}, 4, 500)).rank_of_chunk;
  job.speeds = {0.7, 0.7, 0.7};
  EXPECT_EQ(search_partition(small(job, {}, 4, 500)).rank_of_chunk, without);
}

// Costs as they are told before an exchange, after it, and by a new deal.
TEST(RingDeal, TellsTheCostOfAnExchangeBeforeItIsMade) {
  for (const int n : {1, 2, 3, 4, 5, 9}) {
    const int chunks = 4 * n;
    ChunkWork work(chunks);
    std::uint64_t draws = 0;
    const auto below = [&](int limit) {
      return static_cast<int>(random_bits(7, 0, draws++) % static_cast<std::uint64_t>(limit));
    };
    for (int q = 0; q < chunks; ++q)
      for (int k = 0; k < chunks; ++k) work.set(q, k, below(3) == 0 ? 0 : below(1000));
    RingDeal deal(work, n, std::vector<int>(static_cast<std::size_t>(chunks), RingDeal::kNobody));
    EXPECT_EQ(deal.cost().slowest, 0);
    const auto expect_same = [&](const DealCost& a, const DealCost& b) {
      EXPECT_EQ(a.slowest, b.slowest) << n;
      EXPECT_EQ(a.squares, b.squares) << n;
    };
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const DealCost predicted = deal.cost_of_gift(chunk, chunk % n);
      deal.give(chunk, chunk % n);
      expect_same(deal.cost(), predicted);
    }
    for (int i = 0; i < 300; ++i) {
      const int a = below(chunks), b = below(chunks);
      if (deal.rank_of(a) == deal.rank_of(b)) continue;
      const DealCost predicted = deal.cost_of_exchange(a, b);
      deal.exchange(a, b);
      expect_same(deal.cost(), predicted);
    }
    expect_same(deal.cost(), RingDeal(work, n, deal.rank_of()).cost());

    // Speeds whose products are exact.
    std::vector<double> speeds;
    for (int rank = 0; rank < n; ++rank) speeds.push_back(rank % 3 == 0 ? 0.5 : rank % 3);
    RingDeal uneven(work, n, deal.rank_of(), speeds);
    for (int i = 0; i < 300; ++i) {
      const int chunk = below(chunks), rank = below(n);
      if (uneven.rank_of(chunk) == rank) continue;
      const DealCost predicted = uneven.cost_of_move(chunk, rank);
      uneven.move(chunk, rank);
      EXPECT_EQ(uneven.rank_of(chunk), rank);
      expect_same(uneven.cost(), predicted);
    }
    expect_same(uneven.cost(), RingDeal(work, n, uneven.rank_of(), speeds).cost());
  }
}

}  // namespace searched_test
}  // namespace ringscope
