// Balance under masks of many documents, of which plan looks at a sample.
#include "core/tools/cost/balance.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/random.h"
#include "core/problem/region.h"
#include "core/ring/ring.h"
#include "core/tools/cost/amounts.h"

namespace ringscope {
namespace {

// Lengths from 1 to 2 x mean, by chance.
std::string many_documents(Index seqlen, int mean) {
  std::string mask = "causal+documents:";
  Index left = seqlen;
  for (std::uint64_t i = 0; left > 0; ++i) {
    const auto drawn =
        static_cast<Index>(random_bits(3, 0, i) % static_cast<std::uint64_t>(2 * mean));
    const Index length = min_of(1 + drawn, left);
    left -= length;
    mask += std::to_string(length) + (left > 0 ? "," : "");
  }
  return mask;
}

double slowest_steps_counted(const Problem& job) {
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  const Partition partition = job.partition_of_sequence();
  double sum = 0;
  for (int step = 0; step < job.world_size; ++step) {
    Index slowest = 0;
    for (int rank = 0; rank < job.world_size; ++rank) {
      const int owner = RingSchedule{rank, job.world_size}.owner(step);
      slowest =
          max_of(slowest, Region{mask, partition.rows_of(rank), partition.rows_of(owner)}.pairs());
    }
    sum += static_cast<double>(slowest);
  }
  return sum;
}

TEST(Balance, OfManyDocumentsIsSampledWhateverTheWorldSize) {
  Problem job;
  job.shape.seqlen = 1 << 17;
  job.mask = MaskSpec::parse(many_documents(job.shape.seqlen, 150));
  bool sampled = false;
  for (const PartitionKind kind : kAllPartitions)
    for (const int n : {1, 2, 3, 5, 8, 20, 31, 33, 40, 64}) {
      job.partition = kind;
      job.world_size = n;
      const Balance balance = balance_of(job);
      EXPECT_EQ(std::ssize(balance.steps), n) << name_of(kind);
      EXPECT_EQ(balance.mean_rank, total_pairs(job) / n) << name_of(kind);
      const double counted = slowest_steps_counted(job);
      EXPECT_NEAR(balance.slowest_steps(), counted, (balance.sampled ? 0.1 : 0) * counted)
          << name_of(kind) << " on " << n;
      sampled = sampled || balance.sampled;
    }
  EXPECT_TRUE(sampled);
}

}  // namespace
}  // namespace ringscope
