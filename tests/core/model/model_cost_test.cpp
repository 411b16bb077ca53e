// The closed forms of what a model takes around its attention, against a real model on ranks.
#include <gtest/gtest.h>

#include "core/tools/cost/model_step.h"
#include "tests/core/model/model_case.h"

namespace ringscope {
namespace {

AttentionShape heads_of(const ModelShape& shape) {
  return {1, shape.num_heads, shape.num_heads_kv, 1, shape.head_dim};
}

// All products that the ranks did, forward and backward, and nothing twice, however rows are dealt
// out.
TEST(ModelCost, FlopsAreThoseOfTheRealProducts) {
  for (const Index layers : {0, 1, 3})
    for (const Index num_heads_kv : {1, 4})
      for (const int world_size : {1, 3}) {
        ModelCase a_case = ModelCase::small();
        a_case.shape.layers = layers;
        a_case.shape.num_heads_kv = num_heads_kv;
        const auto tokens = static_cast<double>(a_case.batch * a_case.seqlen);
        const AttentionShape heads = heads_of(a_case.shape);
        const ModelSizes sizes = sizes_of(a_case.shape);
        const double forward =
            static_cast<double>(layers) *
                (projection_flops(heads, sizes, tokens) + mlp_flops(sizes, tokens)) +
            head_flops(sizes, tokens);
        double counted = 0;
        for (const auto& rank : gradients_of(a_case, PartitionKind::fold, world_size))
          counted += rank->replica.model().product_flops();
        EXPECT_EQ(counted, 3 * forward) << layers << " layers, " << world_size << " ranks";
      }
}

TEST(ModelCost, WeightsAreThoseOfTheRealModel) {
  for (const Index layers : {0, 1, 4})
    for (const Index num_heads_kv : {1, 2, 4}) {
      ModelShape shape = ModelCase::small().shape;
      shape.layers = layers;
      shape.num_heads_kv = num_heads_kv;
      EXPECT_EQ(model_weights(heads_of(shape), sizes_of(shape), layers),
                static_cast<double>(ModelWeights(shape).layout.size()));
    }
}

// Over all ranks; a rank's own number is rounded to chunks.
TEST(ModelCost, ReductionSendsWhatTheFormulaSays) {
  for (const Index weights : {1, 100, 861})
    for (int n = 1; n <= 8; ++n) {
      Index sent = 0;
      for (int rank = 0; rank < n; ++rank) sent += RingAllReduce::bytes_sent(weights + 1, n, rank);
      EXPECT_DOUBLE_EQ(
          n * weight_traffic(static_cast<double>(weights), 4, n, 0, 1, 1).gradient_bytes,
          static_cast<double>(sent));
    }
}

}  // namespace
}  // namespace ringscope
