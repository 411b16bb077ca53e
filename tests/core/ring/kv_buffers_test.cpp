// Rings with more than two KV buffers: the same bits, messages and work, memory as predicted, and
// blocks that come in as far ahead as the buffers reach, and no further. (What the loops' operations come
// after: tests/core/tools/sim/graph_test.cpp.)
#include <gtest/gtest.h>

#include <set>

#include "core/tools/cost/amounts.h"
#include "tests/core/ring/ring_harness.h"
#include "tests/core/ring/run_ahead.h"
#include "tests/core/ring/run_invariants.h"

namespace ringscope {
namespace {

Problem config_of(Index seqlen, PartitionKind partition, int world_size, int kv_buffers) {
  Problem config;
  config.shape = {1, 4, 2, seqlen, 4};
  config.mask = MaskSpec::parse(seqlen % 2 == 0 ? "causal" : "prefix:3");
  config.partition = partition;
  config.world_size = world_size;
  config.backward = true;
  config.kv_buffers = kv_buffers;
  return config;
}

AttentionInputs inputs_of(const Problem& config) {
  const Tensors<float> in = random_tensors(config.shape, 81);
  return {in.q, in.k, in.v, in.dout};
}

double billed_bytes(const Problem& config, int rank) {
  const auto rows = static_cast<double>(config.partition_of_sequence().rows_of(rank).size());
  return total_bytes(memory_parts(config, rows));
}

// Odd lengths and such that leave ranks without rows.
TEST(KvBuffers, ChangeNoBitNoMessageAndNoPair) {
  for (const Index seqlen : {61, 4, 1})
    for (const PartitionKind partition : kAllPartitions)
      for (const int n : {1, 2, 3, 5, 8}) {
        if (seqlen < n && partition != PartitionKind::zigzag) continue;
        const Problem two = config_of(seqlen, partition, n, 2);
        const AttentionInputs inputs = inputs_of(two);
        const auto expected = bits_of(run_on_threads(two, inputs).outputs);
        for (const int kv_buffers : std::set{2, 3, n, n + 3}) {
          if (kv_buffers < 2) continue;
          SCOPED_TRACE(testing::Message() << "seqlen " << seqlen << ", " << name_of(partition)
                                          << ", world_size " << n << ", buffers " << kv_buffers);
          Problem config = two;
          config.kv_buffers = kv_buffers;
          const RingRun run = run_on_threads(config, inputs);
          EXPECT_EQ(bits_of(run.outputs), expected);
          for (int rank = 0; rank < n; ++rank)
            EXPECT_EQ(static_cast<double>(run.peak_bytes[rank]), billed_bytes(config, rank));
          EXPECT_EQ(run.recording.info.kv_buffers, std::min(kv_buffers, n));
          expect_the_rules(config, run);
        }
      }
}

TEST(KvBuffers, AreAtLeastTwo) {
  for (const int kv_buffers : {1, 0, -3}) {
    const Problem config = config_of(8, PartitionKind::zigzag, 2, kv_buffers);
    EXPECT_THROW(check_config(config), InputError);
  }
}

TEST(KvBuffers, BlocksArriveAheadWhileARankIsAtWork) {
  for (const int n : {2, 5, 8})
    for (const int kv_buffers : std::set{2, 3, 4, n}) {
      if (kv_buffers > n) continue;
      SCOPED_TRACE(testing::Message() << "world_size " << n << ", buffers " << kv_buffers);
      const Problem config = config_of(40, PartitionKind::zigzag, n, kv_buffers);
      std::vector<HopsAhead> hops(n, HopsAhead{kv_buffers, n, {}});
      const RingRun run = run_wrapped(
          config, inputs_of(config),
          [&](Rank& rank, Communicator& inner) {
            return WatchedCommunicator(inner, hops[rank.rank()]);
          },
          [&](Rank& rank, BlockBackend& inner) {
            return WaitingBackend(inner, hops[rank.rank()]);
          });
      EXPECT_EQ(bits_of(run.outputs), bits_of(run_on_threads(config, inputs_of(config)).outputs));
    }
}

}  // namespace
}  // namespace ringscope
