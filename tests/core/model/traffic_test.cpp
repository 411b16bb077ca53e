// What goes over the wire in a training step: attention's blocks and the gradients, to the byte,
// and nothing else.
#include <gtest/gtest.h>

#include <utility>

#include "core/tools/cost/amounts.h"
#include "tests/core/model/model_case.h"

namespace ringscope {
namespace {

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
        // K and V of all ranks.
        const Index kv_bytes = 2 * a_case.batch * num_heads_kv * seqlen * shape.head_dim * 4;
        Index forward = 0, backward = 0, gradients = 0, reduction = 0;
        for (const auto& rank : gradients_of(a_case, partition, n)) {
          const WireCounter& wire = rank->counting;
          const int r = rank->replica.rank();
          const Index size = rank->replica.store().gradients_and_loss();
          const Traffic traffic = traffic_of(job, r);
          const Index mine = wire.sent(Pass::forward, Payload::kv).bytes;
          EXPECT_EQ(static_cast<double>(mine),
                    static_cast<double>(shape.layers) * traffic.forward_bytes);
          EXPECT_EQ(static_cast<double>(wire.sent(Pass::backward).bytes),
                    static_cast<double>(shape.layers) * traffic.backward_bytes +
                        static_cast<double>(RingAllReduce::bytes_sent(size, n, r)));
          EXPECT_EQ(wire.sent(Pass::forward, Payload::dkv).bytes, 0);
          forward += mine;
          backward += wire.sent(Pass::backward, Payload::kv).bytes;
          gradients += wire.sent(Pass::backward, Payload::dkv).bytes;
          reduction += RingAllReduce::bytes_sent(size, n, r);
        }
        // Over all ranks, by the formulas of the texts: K and V visit N - 1 ranks beside their
        // own, in both passes; their gradients make N hops; weights' gradients 2 (N-1)/N a rank.
        EXPECT_EQ(forward, shape.layers * (n - 1) * kv_bytes);
        EXPECT_EQ(backward, forward);
        EXPECT_EQ(reduction,
                  2 * (n - 1) * 4 * (ModelWeights(shape).layout.size() + 1));  // + 1: the loss
        EXPECT_EQ(gradients - reduction, n == 1 ? 0 : shape.layers * n * kv_bytes);
      }
}

}  // namespace
}  // namespace ringscope
