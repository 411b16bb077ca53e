// What groups of ranks send: the formulas against bytes and messages that were counted, and against
// numbers by hand.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/tools/cost/amounts.h"
#include "core/training/rank_groups.h"
#include "core/training/replica.h"
#include "tests/core/base/thrown.h"
#include "tests/core/training/model_case.h"
#include "tests/core/training/tensor_parallel_case.h"

namespace ringscope {
namespace {

// All ranks together: rows, chunks and shares of the single ones need not be equal.
TEST(GroupTraffic, IsWhatATensorParallelModelSends) {
  for (const PartitionKind partition : kAllPartitions)
    for (const Layout& layout : {Layout{2, 2, 1}, {1, 3, 1}, {2, 3, 2}, {2, 1, 1}, {1, 1, 1}}) {
      const ModelCase a_case = ModelCase::small();
      const ModelShape& shape = a_case.shape;
      const GroupTraffic traffic =
          group_traffic({{a_case.batch / layout.data, shape.num_heads, shape.num_heads_kv,
                          a_case.seqlen, shape.head_dim},
                         shape.width,
                         shape.layers,
                         4,
                         {{layout.tensor, layout.context, 1, layout.data}}});
      double over_tensor = 0, over_context = 0, gradients = 0, expected_gradients = 0;
      for (const auto& part : run_parts(a_case, layout, partition)) {
        // y's sum and dx's of this rank's rows, by attention and by the MLP.
        const int rank = part->tensor.rank(), n = layout.tensor;
        const Index values = part->replica.ring().tokens() * shape.width;
        EXPECT_EQ(part->replica.tensor_bytes(),
                  4 * shape.layers * RingAllReduce::bytes_sent(values, n, rank));
        EXPECT_EQ(part->ring.sent(Pass::forward, Payload::dkv).bytes, 0);
        EXPECT_EQ(part->ring.sent().messages, traffic.context.times);
        over_tensor += static_cast<double>(part->replica.tensor_bytes());
        over_context += static_cast<double>(part->ring.sent().bytes);
        gradients += static_cast<double>(part->replica.reduction_bytes());
        expected_gradients += static_cast<double>(RingAllReduce::bytes_sent(
            part->weights.layout.size() + 1, layout.context * layout.data, part->gradients.rank()));
      }
      EXPECT_NEAR(over_tensor, 2 * layout.ranks() * traffic.tensor.bytes, 1e-6);
      EXPECT_NEAR(over_context, layout.ranks() * traffic.context.bytes, 1e-6);
      EXPECT_EQ(gradients, expected_gradients);
    }
}

GroupJob large() {
  return {{.batch = 1, .num_heads = 32, .num_heads_kv = 8, .seqlen = 32768, .head_dim = 128},
          4096,
          32,
          4,
          {{2, 4, 2, 2}}};
}

// 8,192 rows a rank, 16 layers a stage, 4 heads of K and V.
TEST(GroupTraffic, InNumbersByHand) {
  const double mib = 1 << 20;
  const GroupTraffic traffic = group_traffic(large());
  const auto of = [](const Talk& talk) { return std::pair(talk.times, talk.bytes); };
  EXPECT_EQ(of(traffic.tensor), std::pair(32.0, 32 * 128 * mib));
  EXPECT_EQ(ring_block_bytes(large()), 32 * mib);
  EXPECT_EQ(of(traffic.context), std::pair(160.0, 160 * 32 * mib));
  EXPECT_EQ(of(traffic.pipeline), std::pair(1.0, 128 * mib));
  EXPECT_EQ(of(traffic.gradients), std::pair(1.0, 1.75 * 16 * 80 * mib));
  // Two bytes a value: blocks and rows are half, sums of gradients are not.
  GroupJob job = large();
  job.value_bytes = 2;
  const GroupTraffic halved = group_traffic(job);
  EXPECT_EQ(halved.tensor.bytes, traffic.tensor.bytes / 2);
  EXPECT_EQ(halved.pipeline.bytes, traffic.pipeline.bytes / 2);
  EXPECT_EQ(halved.context.bytes, 16 * (6 * 16 + 4 * 32) * mib);
  EXPECT_EQ(halved.gradients.bytes, traffic.gradients.bytes);
  // Ends of a longer pipeline send one way only.
  job = large();
  job.sizes = {{2, 4, 4, 1}};
  EXPECT_EQ(group_traffic(job).pipeline.bytes, 1.5 * 128 * mib);
  job.sizes = {{1, 1, 1, 1}};
  const GroupTraffic none = group_traffic(job);
  for (const Talk& talk : {none.tensor, none.context, none.pipeline, none.gradients}) {
    EXPECT_EQ(talk.times, 0);
    EXPECT_EQ(talk.bytes, 0);
  }
}

// ---
// What goes over the wire in a training step: attention's blocks and the gradients, to the byte,
// and nothing else. (By the formulas of the texts: training_run_test.cpp.)

TEST(Traffic, OfATrainingStepIsAttentionsAndTheReductionsAndNothingElse) {
  for (const auto& [num_heads_kv, seqlen] : {std::pair<Index, Index>{1, 2}, {4, 13}, {2, 24}})
    for (const PartitionKind partition : kAllPartitions)
      for (int n = 1; n <= 8; ++n) {
        ModelCase a_case = ModelCase::small();
        a_case.shape.num_heads_kv = num_heads_kv;
        a_case.seqlen = seqlen;
        const ModelShape& shape = a_case.shape;
        Problem job;
        job.shape = {a_case.batch, shape.num_heads, num_heads_kv, seqlen, shape.head_dim};
        job.partition = partition;
        job.world_size = n;
        job.backward = true;
        for (const auto& rank : gradients_of(a_case, partition, n)) {
          const WireCounter& wire = rank->counting;
          const int r = rank->replica.rank();
          const Index size = rank->replica.store().gradients_and_loss();
          const Traffic traffic = traffic_of(job, r);
          EXPECT_EQ(static_cast<double>(wire.sent(Pass::forward, Payload::kv).bytes),
                    static_cast<double>(shape.layers) * traffic.forward_bytes);
          EXPECT_EQ(static_cast<double>(wire.sent(Pass::backward).bytes),
                    static_cast<double>(shape.layers) * traffic.backward_bytes +
                        static_cast<double>(RingAllReduce::bytes_sent(size, n, r)));
          EXPECT_EQ(wire.sent(Pass::forward, Payload::dkv).bytes, 0);
        }
      }
}

// ---

struct Array {
  Array(Index size, Communicator& inner)
      : comm(inner),
        reduction(size, inner.world_size(), nullptr),
        values(static_cast<std::size_t>(size)) {}

  WireCounter comm;
  RingAllReduce reduction;
  std::vector<float> values;
};

// Integers, which add up exactly, whatever the order.
TEST(RingAllReduce, AddsUpOnEveryRankAndSendsWhatTheFormulaSays) {
  for (int world_size = 1; world_size <= 5; ++world_size)
    for (const Index size : {1, 4, 5, 60, 61, 3 * (1 << 18) + 1}) {
      if (size > 100 && world_size != 2) continue;  // chunks of several pieces
      const auto ranks = run_rank_threads(
          world_size, [&](Communicator& comm) { return std::make_unique<Array>(size, comm); },
          [&](Array& mine) {
            for (Index i = 0; i < size; ++i)
              mine.values[i] = static_cast<float>((mine.comm.rank() + 1) * 100 + i);
            mine.reduction.add_up(mine.comm, mine.values.data());
          });
      Index sent = 0;
      for (const auto& rank : ranks) {
        for (Index i = 0; i < size; ++i)
          ASSERT_EQ(rank->values[i], 50 * world_size * (world_size + 1) + world_size * i)
              << size << " values, rank " << rank->comm.rank() << " of " << world_size;
        const Index mine = rank->comm.sent().bytes;
        EXPECT_EQ(mine, RingAllReduce::bytes_sent(size, world_size, rank->comm.rank()));
        sent += mine;
      }
      EXPECT_EQ(sent, 2 * (world_size - 1) * size * 4);  // 2 (N-1)/N of the array a rank
    }
}

TEST(RingAllReduce, APeerThatFailsEndsIt) {
  const auto run = [] {
    run_rank_threads(
        3, [](Communicator& comm) { return std::make_unique<Array>(10, comm); },
        [](Array& mine) {
          if (mine.comm.rank() == 1) throw std::runtime_error("no more");
          mine.reduction.add_up(mine.comm, mine.values.data());
        });
  };
  EXPECT_EQ(run_error_of(run), "rank 1, step -1: no more");
}

}  // namespace
}  // namespace ringscope
