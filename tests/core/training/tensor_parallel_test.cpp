// Heads and the MLP's inside dealt out to a tensor group, rows to a context group, sequences to data
// groups: the same loss and gradients as one rank with all of them.
#include "core/training/model.h"

#include <gtest/gtest.h>

#include "tests/core/training/tensor_parallel_case.h"

namespace ringscope {
namespace {

void expect_same_as_one_rank(const ModelCase& a_case, const Layout& layout,
                             PartitionKind partition) {
  const auto whole = std::move(gradients_of(a_case, PartitionKind::contiguous, 1)[0]);
  const double loss = whole->losses[0], length = whole->replica.gradient_length();
  // With a single key its weight is 1 whatever the scores are, so the gradients of query and key are 0:
  // what is left of them is rounding of terms as large as the other gradients.
  double slack = 0;
  for (Index i = 0; i < whole->replica.store().size(); ++i)
    slack = std::max(slack, 0x1p-24 * std::abs(double{whole->replica.store().gradients()[i]}));
  for (const auto& part : run_parts(a_case, layout, partition)) {
    const std::string who = " of rank " + std::to_string(part->gradients.rank()) + "/" +
                            std::to_string(part->tensor.rank()) + ", " + layout.name() + ", " +
                            std::string(name_of(partition));
    EXPECT_NEAR(part->loss, loss, 1e-6 * loss) << who;
    EXPECT_NEAR(part->length, length, 1e-5 * length) << who;
    std::vector<float> expected(static_cast<std::size_t>(part->weights.layout.size()));
    const Index size =
        part->weights.layout.for_parts_of_whole(part->place(), [&](Index in_whole, Index own) {
          expected[own] = whole->replica.store().gradients()[in_whole];
        });
    EXPECT_EQ(size, whole->weights.layout.size());
    for (const NamedParameter& weight : part->weights.layout.all()) {
      const auto first = expected.begin() + weight.place.offset;
      expect_rounded_alike(part->replica.store().gradient(weight.place),
                           std::vector<float>(first, first + weight.place.size()),
                           weight.name + who, 0, slack);
    }
  }
}

TEST(TensorParallel, IsTheSameAsOneRank) {
  for (const PartitionKind partition : kAllPartitions)
    expect_same_as_one_rank(ModelCase::small(), {2, 2, 2}, partition);
  for (const Layout& layout : {Layout{2, 1, 1}, {1, 1, 2}, {1, 3, 2}, {2, 3, 1}})
    expect_same_as_one_rank(ModelCase::small(), layout, PartitionKind::zigzag);
  ModelCase a_case = ModelCase::small();
  a_case.shape.num_heads_kv = 4;
  a_case.shape.hidden = 12;
  a_case.chunks = 3;
  expect_same_as_one_rank(a_case, {4, 2, 1}, PartitionKind::striped);
}

TEST(TensorParallel, OfFewerRowsThanRanksAndOtherMasks) {
  ModelCase a_case = ModelCase::small();
  a_case.seqlen = 1;
  expect_same_as_one_rank(a_case, {2, 2, 2}, PartitionKind::zigzag);
  for (const char* mask : {"full", "causal+window:4"}) {
    a_case = ModelCase::small();
    a_case.mask = mask;
    a_case.kind = LossKind::sum;
    expect_same_as_one_rank(a_case, {2, 2, 1}, PartitionKind::contiguous);
  }
}

// So they stay the same on them, step after step.
TEST(TensorParallel, RanksHaveTheSameBitsOfWhatTheyShare) {
  const auto parts = run_parts(ModelCase::small(), {2, 2, 2}, PartitionKind::zigzag);
  for (const auto& part : parts) {
    EXPECT_EQ(part->loss, parts[0]->loss);
    EXPECT_EQ(part->length, parts[0]->length);
    const ParameterStore &found = part->replica.store(), &first = parts[0]->replica.store(),
                         &alike = parts[part->tensor.rank()]->replica.store();
    for (Index i = 0; i < found.size(); ++i) EXPECT_EQ(found.gradients()[i], alike.gradients()[i]);
    for (const NamedParameter& weight : part->weights.layout.all())
      for (Index i = 0; weight.split == Split::none && i < weight.place.size(); ++i)
        EXPECT_EQ(found.gradients()[weight.place.offset + i],
                  first.gradients()[weight.place.offset + i])
            << weight.name;
  }
}

}  // namespace
}  // namespace ringscope
