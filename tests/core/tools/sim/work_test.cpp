// Pairs and computed pairs of every rank and owner, against counting each region and each tile.
#include "core/tools/sim/work.h"

#include <gtest/gtest.h>

namespace ringscope {
namespace work_test {

constexpr const char* kMasks[] = {"full",
                                  "causal",
                                  "prefix:0",
                                  "prefix:1",
                                  "prefix:37",
                                  "prefix:64+window:9",
                                  "window:1",
                                  "window:5",
                                  "window:33",
                                  "causal+window:1",
                                  "causal+window:16",
                                  "causal+window:500",
                                  "causal+prefix:50+window:20"};

Problem job_of(const std::string& mask, PartitionKind partition, int world_size, Index seqlen) {
  return {.shape = {1, 1, 1, seqlen, 4},
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = world_size};
}

// Documents of lengths 1, 1, 17, 2, 29, 3, ... that sum up to seqlen.
std::string documents(Index seqlen) {
  std::string text = "documents:";
  Index left = seqlen;
  for (Index i = 0; left > 0; ++i) {
    const Index length = min_of(left, i % 2 == 0 ? 1 + i / 2 : 1 + 16 * (i / 2 % 3));
    text += (i == 0 ? "" : ",") + std::to_string(length);
    left -= length;
  }
  return text;
}

template <class F>
void for_jobs(F&& f) {
  for (const Index seqlen : {1, 2, 7, 64, 97, 160})
    for (const int world_size : {1, 2, 3, 4, 7, 8, 13})
      for (const PartitionKind partition : kAllPartitions) {
        const auto run = [&](const std::string& mask) {
          SCOPED_TRACE(testing::Message() << mask << ", " << name_of(partition) << ", "
                                          << world_size << " ranks, seqlen " << seqlen);
          f(job_of(mask, partition, world_size, seqlen));
        };
        for (const char* mask : kMasks) run(mask);
        for (const char* with : {"", "causal+", "causal+window:6+", "window:4+", "prefix:40+"})
          run(with + documents(seqlen));
      }
}

Region region_of(const Problem& job, const Mask& mask, int rank, int owner) {
  const Partition partition = job.partition_of_sequence();
  return {mask, partition.rows_of(rank), partition.rows_of(owner)};
}

// Every tile looked at by itself.
double computed_by_tiles(const Region& region, Granularity granularity) {
  const Index rows = region.queries.size(), keys = region.keys.size();
  Index computed = 0;
  for (Index i = 0; i < rows; i += granularity.rows)
    for (Index j = 0; j < keys; j += granularity.keys) {
      const Interval q{i, min_of(i + granularity.rows, rows)};
      const Interval k{j, min_of(j + granularity.keys, keys)};
      if (region.tile_class(q, k) != TileClass::empty) computed += q.size() * k.size();
    }
  return static_cast<double>(computed);
}

TEST(Work, ComputesWholeTiles) {
  for_jobs([](const Problem& job) {
    const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
    for (const Granularity granularity :
         {Granularity{4, 8}, Granularity{16, 1}, Granularity{1, 5}}) {
      const Work work(job, granularity);
      int wrong = 0;
      for (int rank = 0; rank < job.world_size; ++rank)
        for (int owner = 0; owner < job.world_size; ++owner) {
          const Region region = region_of(job, mask, rank, owner);
          const double computed = work.computed_pairs(rank, owner);
          wrong += !(computed == computed_by_tiles(region, granularity) &&
                     computed >= work.pairs(rank, owner) &&
                     work.pairs(rank, owner) == static_cast<double>(region.pairs()));
        }
      EXPECT_EQ(wrong, 0);
    }
  });
}

TEST(Work, RefusesWhatDoesNotFit) {
  const Problem job = job_of("documents:3,4", PartitionKind::striped, 2, 8);
  EXPECT_THROW(Work{job}, InputError);
  const Problem good = job_of("causal", PartitionKind::striped, 2, 8);
  EXPECT_THROW(Work(good, {0, 1}), InputError);
}

}  // namespace work_test
}  // namespace ringscope
