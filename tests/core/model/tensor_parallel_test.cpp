// Heads dealt out to a TP group, rows to a CP group: the same outputs and gradients as one rank
// with all of both, and no bytes but the ring's and the sums'.
#include "core/model/tensor_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/core/model/tensor_parallel_case.h"

namespace ringscope {
namespace {

// All heads and rows, by the layer of the model.
struct Whole {
  Whole(const AttentionCase& a_case, Communicator& comm)
      : weights(a_case.shape),
        store(weights.layout, 3, nullptr),
        rows(a_case, a_case.shape, comm),
        layer(weights.layers[0], rows.ring) {}

  void run() {
    store.clear_gradients();
    layer.forward(store, rows.x.data(), rows.y.data(), rows.shared);
    layer.backward(store, rows.x.data(), rows.dy.data(), rows.dx.data(), rows.shared);
  }

  ModelWeights weights;
  ParameterStore store;
  Rows rows;
  AttentionLayer layer;
};

double largest_of(const Values& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

void expect_same_as_one_rank(const AttentionCase& a_case, int tensor, int context) {
  const auto whole = std::move(run_rank_threads(
      1, [&](Communicator& comm) { return std::make_unique<Whole>(a_case, comm); },
      [](Whole& one) { one.run(); })[0]);
  for (const auto& part : run_parts(a_case, tensor, context)) {
    const std::string who = " of rank " + std::to_string(part->tensor.rank()) + "/" +
                            std::to_string(part->context.rank()) + ", TP " +
                            std::to_string(tensor) + ", CP " + std::to_string(context) + ", " +
                            std::string(name_of(a_case.partition));
    const LocalRows rows = part->rows.ring.local_rows();
    expect_rounded_alike(part->rows.y.data(), a_case.rows_of(whole->rows.y, rows), "y" + who);
    expect_rounded_alike(part->rows.dx.data(), a_case.rows_of(whole->rows.dx, rows), "dx" + who);
    Values gradients(static_cast<std::size_t>(part->shard.layout.size()));
    part->shard.take(whole->weights.layers[0], whole->store.gradients(), part->tensor.rank(),
                     gradients.data());
    // With a single key its weight is 1 whatever the scores are, so the gradients of query and key
    // are 0: what is left of them is rounding of terms as large as the other gradients.
    const double terms = a_case.seqlen == 1 ? largest_of(gradients) : 0;
    for (const NamedParameter& weight : part->shard.layout.all()) {
      const auto first = gradients.begin() + weight.place.offset;
      expect_rounded_alike(part->store.gradient(weight.place),
                           Values(first, first + weight.place.size()), weight.name + who,
                           weight.name == "query" || weight.name == "key" ? terms : 0);
    }
  }
}

TEST(TensorParallel, OfTwoTimesTwoRanksIsTheSameAsOneRank) {
  for (const PartitionKind partition : kAllPartitions) {
    AttentionCase a_case;
    a_case.partition = partition;
    expect_same_as_one_rank(a_case, 2, 2);
  }
}

TEST(TensorParallel, OfOtherSizesAndHeads) {
  for (const Index num_heads_kv : {2, 4})
    for (const auto& [tensor, context] : {std::pair(1, 3), {2, 1}, {2, 3}, {4, 2}})
      if (num_heads_kv % tensor == 0) {
        AttentionCase a_case;
        a_case.shape.num_heads_kv = num_heads_kv;
        expect_same_as_one_rank(a_case, tensor, context);
      }
}

TEST(TensorParallel, OfFewerRowsThanRanksAndOtherMasks) {
  AttentionCase a_case;
  a_case.seqlen = 1;
  a_case.batch = 1;
  expect_same_as_one_rank(a_case, 2, 2);
  for (const char* mask : {"full", "causal+window:4"}) {
    a_case = {};
    a_case.mask = mask;
    expect_same_as_one_rank(a_case, 2, 2);
  }
}

// So whatever comes behind the layer stays the same on them.
TEST(TensorParallel, RanksOfATensorGroupHaveTheSameBits) {
  const auto parts = run_parts({}, 2, 2);
  for (const int first : {0, 2}) {
    EXPECT_EQ(parts[first]->rows.y, parts[first + 1]->rows.y);
    EXPECT_EQ(parts[first]->rows.dx, parts[first + 1]->rows.dx);
  }
  EXPECT_NE(parts[0]->rows.y, parts[2]->rows.y);
}

}  // namespace
}  // namespace ringscope
