// Training for some steps: the same losses whatever world_size and partition, and weights that stay
// the same on every rank.
#include <gtest/gtest.h>

#include <cstring>

#include "core/model/weights.h"
#include "tests/core/base/thrown.h"
#include "tests/core/model/model_case.h"

namespace ringscope {
namespace replica_training_test {

constexpr int kSteps = 20;

Replicas train(const ModelCase& a_case, PartitionKind partition, int world_size) {
  return run_replicas(a_case, partition, world_size, [&](TestReplica& rank) {
    AdamW adam(rank.weights.layout, {.rate = 1e-2, .warmup_steps = 5}, nullptr);
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<std::uint8_t> windows = a_case.windows(static_cast<std::uint64_t>(step));
      rank.losses.push_back(rank.replica.loss_and_gradients(windows.data()));
      adam.update(rank.replica.store(), rank.replica.gradient_length());
    }
  });
}

ModelCase trained_case() {
  ModelCase a_case = ModelCase::small();
  a_case.seqlen = 29;
  a_case.batch = 4;
  return a_case;
}

TEST(ReplicaTraining, LossesAreTheSameForEveryWorldSizeAndPartition) {
  const ModelCase a_case = trained_case();
  const Replicas alone = train(a_case, PartitionKind::contiguous, 1);
  const std::vector<double>& expected = alone[0]->losses;
  EXPECT_LE(expected.back(), 0.9 * expected.front());  // it does learn
  for (const int world_size : {2, 4})
    for (const PartitionKind partition : kAllPartitions)
      for (const auto& rank : train(a_case, partition, world_size))
        for (int step = 0; step < kSteps; ++step)
          EXPECT_NEAR(rank->losses[step], expected[step], 1e-4 * expected[step])
              << "step " << step << ", " << name_of(partition) << " on " << world_size;
}

TEST(ReplicaTraining, WeightsStayTheSameBitsOnEveryRankAndEveryTime) {
  const ModelCase a_case = trained_case();
  const Replicas ranks = train(a_case, PartitionKind::zigzag, 3);
  const Replicas again = train(a_case, PartitionKind::zigzag, 3);
  const ParameterStore& first = ranks[0]->replica.store();
  for (const Replicas* replicas : {&ranks, &again})
    for (const auto& rank : *replicas) {
      EXPECT_EQ(std::memcmp(rank->replica.store().values(), first.values(),
                            sizeof(float) * static_cast<std::size_t>(first.size())),
                0);
      EXPECT_EQ(rank->losses, ranks[0]->losses);
    }
}

// A rank that dies in the middle of it ends the others, and is named.
TEST(ReplicaTraining, ARankThatFailsEndsAll) {
  const ModelCase a_case = trained_case();
  const auto run = [&] {
    run_replicas(a_case, PartitionKind::contiguous, 3, [&](TestReplica& rank) {
      for (int step = 0; step < 5; ++step) {
        if (step == 2 && rank.replica.rank() == 1) throw std::runtime_error("no more");
        const std::vector<std::uint8_t> windows = a_case.windows();
        rank.replica.loss_and_gradients(windows.data());
      }
    });
  };
  EXPECT_EQ(run_error_of(run), "rank 1, step -1: no more");
}

TEST(ModelShape, RefusesSizesThatDoNotFit) {
  const auto refused = [](auto&& change) {
    ModelShape shape = ModelCase::small().shape;
    change(shape);
    EXPECT_THROW(validate(shape), InputError);
  };
  EXPECT_NO_THROW(validate(ModelCase::small().shape));
  refused([](ModelShape& s) { s.num_heads_kv = 3; });
  refused([](ModelShape& s) { s.head_dim = 5; });
  refused([](ModelShape& s) { s.vocab = 257; });
  refused([](ModelShape& s) { s.width = 0; });
}

}  // namespace replica_training_test
}  // namespace ringscope
