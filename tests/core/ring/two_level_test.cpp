// The two-level ring's loop on threads, against the f64 oracle, forward and backward.
#include "core/ring/two_level.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/core/ring/ring_harness.h"

namespace ringscope {
namespace {

TEST(TwoLevelRing, AgreesWithTheOracle) {
  const AttentionShape shape{2, 4, 2, 61, 8};
  for (const char* mask : {"full", "causal", "causal+window:9", "prefix:20+documents:30,1,30"}) {
    const RingReference reference(shape, DType::f32, mask, default_softmax_scale(shape.head_dim),
                                  5);
    for (const PartitionKind partition : kAllPartitions)
      for (const auto& [nodes, per_node] :
           {std::pair{1, 3}, {3, 1}, {2, 2}, {2, 4}, {4, 2}, {3, 3}, {9, 8}})
        for (const int kv_buffers : {2, 3, 80}) {
          // More ranks than rows take their time, so they meet one partition.
          if (nodes == 9 &&
              (kv_buffers == 3 || kThreadSanitizer || partition != PartitionKind::zigzag))
            continue;
          Problem config = reference.config(partition, nodes * per_node, Scheme::two_level);
          config.nodes = nodes;
          config.kv_buffers = kv_buffers;
          SCOPED_TRACE(testing::Message() << mask << ", " << name_of(partition) << ", " << nodes
                                          << " x " << per_node << ", " << kv_buffers << " buffers");
          HarnessRun run = run_wrapped(
              config, reference.inputs,
              [](Communicator& comm) { return ForwardingCommunicator(comm); },
              [](int, BlockBackend& cpu) { return ForwardingBackend(cpu); });
          ASSERT_FALSE(run.error) << run.error->what();
          RingRun as_run;
          as_run.outputs = std::move(run.outputs);
          reference.check(config, as_run);
        }
  }
}

}  // namespace
}  // namespace ringscope
