// Training for some steps leaves the same weights on every rank, every time.
#include <gtest/gtest.h>

#include <cstring>

#include "core/model/weights.h"
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
