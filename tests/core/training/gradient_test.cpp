// The gradients of every weight, for every world_size and partition: against differences of a loss
// that is computed a second time, in f64.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/training/model_case.h"
#include "tests/core/training/naive_model.h"

namespace ringscope {
namespace {

// What a model's loss and gradients are.
struct Reference {
  explicit Reference(const ModelCase& its_case) : a_case(its_case), weights(its_case.shape) {
    const ParameterStore store(weights.layout, a_case.seed, nullptr);
    const MaskSpec spec = MaskSpec::parse(a_case.mask);
    const NaiveModel model(weights, spec.for_seqlen(a_case.seqlen), a_case.batch, a_case.windows());
    const Vector64 values(store.values(), store.values() + store.size());
    const bool is_mean = a_case.kind == LossKind::mean;
    const double scale = is_mean ? 1 : static_cast<double>(a_case.batch * a_case.seqlen);
    loss = scale * model.loss(values);
    gradients = model.gradients(values);
    double largest = 0;
    for (double& gradient : gradients) {
      gradient *= scale;
      largest = std::max(largest, std::abs(gradient));
    }
    slack = 0x1p-24 * largest + 2e-9 * scale;
  }

  void check(PartitionKind partition, int world_size) const {
    for (const auto& rank : gradients_of(a_case, partition, world_size)) {
      EXPECT_NEAR(rank->losses[0], loss, 1e-6 * loss);
      double squares = 0;
      for (const double gradient : gradients) squares += gradient * gradient;
      EXPECT_NEAR(rank->replica.gradient_length(), std::sqrt(squares), 1e-5 * std::sqrt(squares));
      for (const NamedParameter& parameter : weights.layout.all()) {
        const float* const found = rank->replica.store().gradient(parameter.place);
        const auto first = gradients.begin() + parameter.place.offset;
        // Slack: what differences in f64 leave, and the rounding of what cancels (a query with a
        // single key has no gradient).
        expect_rounded_alike(found, Vector64(first, first + parameter.place.size()),
                             parameter.name + ", " + std::string(name_of(partition)) + ", rank " +
                                 std::to_string(rank->replica.rank()) + " of " +
                                 std::to_string(world_size),
                             0, slack);
      }
    }
  }

  void check_all(std::initializer_list<int> world_sizes) const {
    for (const int world_size : world_sizes)
      for (const PartitionKind partition : kAllPartitions) check(partition, world_size);
  }

  ModelCase a_case;
  ModelWeights weights;
  double loss = 0;
  double slack = 0;
  Vector64 gradients;
};

TEST(Gradient, OfEveryWeightForEveryPartition) {
  Reference(ModelCase::small()).check_all({1, 2, 3, 4});
}

TEST(Gradient, UnderOtherMasksAndWithOtherKvHeads) {
  for (const auto& [mask, num_heads_kv] :
       {std::pair{"full", 4}, {"causal+window:4", 1}, {"causal+documents:5,8", 2}}) {
    ModelCase a_case = ModelCase::small();
    a_case.mask = mask;
    a_case.shape.num_heads_kv = num_heads_kv;
    Reference(a_case).check_all({1, 3});
  }
}

TEST(Gradient, WithAHeadOfItsOwn) {
  ModelCase a_case = ModelCase::small();
  a_case.shape.tied_head = false;
  Reference(a_case).check_all({2});
}

// On uneven rows: 13 of a sequence, pieces of 1 to 5 of them; or 3, which leaves a rank a single row
// or none.
TEST(Gradient, InPieces) {
  ModelCase a_case = ModelCase::small();
  a_case.shape.layers = 3;
  for (const auto& [batch, seqlen] : {std::pair{2, 13}, {1, 3}}) {
    a_case.batch = batch;
    a_case.seqlen = seqlen;
    Reference reference(a_case);
    reference.a_case.chunks = 6;
    for (const int world_size : {1, 2, 3, 4}) reference.check(PartitionKind::zigzag, world_size);
  }
}

// Pieces of many rows change no bit, because they are whole runs of those that a product adds up at
// a time.
TEST(Gradient, IsTheSameBitsInPiecesOfManyRows) {
  const auto results = [](const ModelCase& a_case) {
    std::vector<double> all;
    for (const auto& rank : gradients_of(a_case, PartitionKind::zigzag, 2)) {
      const ParameterStore& store = rank->replica.store();
      all.insert(all.end(), store.gradients(), store.gradients() + store.size());
      all.push_back(rank->losses[0]);
      all.push_back(rank->replica.gradient_length());
    }
    return all;
  };
  ModelCase a_case = ModelCase::small();
  a_case.batch = 1;
  a_case.seqlen = 1199;  // two ranks; pieces of 512 and 87 or 88 rows
  const std::vector<double> expected = results(a_case);
  a_case.chunks = 2;
  EXPECT_EQ(results(a_case), expected);
}

// Ranks without any rows take part in the ring and in the sum.
TEST(Gradient, OfFewerPositionsThanRanks) {
  for (const Index seqlen : {1, 3}) {
    ModelCase a_case = ModelCase::small();
    a_case.seqlen = seqlen;
    Reference(a_case).check_all({1, 4, 5});
  }
}

// 13 positions on 2, 3 or 4 ranks: shares are unequal, so neither the sum nor the mean of the
// ranks' mean losses' gradients would do (claim C44).
TEST(Gradient, C44_OfASummedLossIsTheSum) {
  ModelCase a_case = ModelCase::small();
  a_case.kind = LossKind::sum;
  Reference(a_case).check_all({1, 2, 3, 4});
}

}  // namespace
}  // namespace ringscope
