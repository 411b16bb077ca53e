// What a training run costs, as it was counted, against what formulas say of it.
#include <gtest/gtest.h>

#include "core/tools/cost/model_step.h"
#include "core/training/checkpoint.h"
#include "core/training/rank_threads.h"
#include "core/training/training.h"
#include "tests/core/training/model_case.h"
#include "tests/core/training/train_case.h"

namespace ringscope {
namespace {

void expect_memory_of_bill(const TrainingPlan& plan) {
  const Deal& deal = plan.deal;
  const FinishedTraining run = train_on_threads(plan, small_text());
  for (int rank = 0; rank < deal.ranks(); ++rank)
    EXPECT_EQ(static_cast<double>(run.ranks[rank].peak_bytes),
              total_bytes(training_memory(plan.settings, deal, rank)))
        << plan.settings.shape.layers << " layers, rank " << rank << " of " << deal.world_size
        << " x " << deal.tensor << " x " << deal.data << ", " << deal.chunks << " chunks, "
        << name_of(deal.dtype);
}

// To the byte, on every rank: what `plan` prints for the same shape.
TEST(TrainingRun, MemoryIsThatOfTheBill) {
  TrainingSettings settings = small_settings();
  settings.shape.hidden = 50;
  for (const Index layers : {0, 1, 3})
    for (const auto& [world_size, seqlen] : {std::pair{1, 31}, {2, 64}, {4, 63}, {3, 5}, {4, 3}})
      for (const Index chunks : {1, 3}) {
        settings.shape.layers = layers;
        settings.seqlen = seqlen;
        const TrainingPlan plan{settings, {PartitionKind::striped, world_size, chunks}, nullptr, 1};
        expect_memory_of_bill(plan);
      }
  settings.shape.num_heads_kv = 2;
  settings.shape.layers = 2;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [tensor, data] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}})
      expect_memory_of_bill({settings,
                             {PartitionKind::contiguous, 2, 1, tensor, data, dtype, Hops::needed},
                             nullptr,
                             1});
}

TEST(TrainingRun, RefusesToRecordWhatIsNotTrained) {
  const std::string text = small_text();
  const Checkpoint start = train_on_threads({small_settings(), {}, nullptr, 2}, text).end;
  TrainingPlan plan{small_settings(), {}, &start, 4};
  for (const Index step : {1, 2, 5, -1}) {
    plan.recorded_step = step;
    EXPECT_THROW(validate(plan), InputError) << step;
  }
  for (const Index step : {0, 3, 4}) {
    plan.recorded_step = step;
    EXPECT_NO_THROW(validate(plan)) << step;
  }
}

// Not its attention alone: a rank with a large MLP is not stuck.
TEST(TrainingRun, EveryPartOfAStepAdvancesThePulse) {
  const TrainingPlan plan{small_settings()};
  const TextBatches batches(small_text(), plan.settings.batch, plan.settings.seqlen, 7);
  WorkPulse pulse;
  ModelPart before = ModelPart::embedding;
  std::uint64_t last = 0;
  int parts = 0;
  const auto work = [&](TrainingRank& rank) {
    rank.replica().ring().listen([&](ModelPart part, Pass, Index) {
      const bool had_products = before == ModelPart::mlp;
      EXPECT_GT(pulse.progress(), last + (had_products ? 1 : 0)) << parts;
      before = part;
      last = pulse.progress();
      ++parts;
    });
    rank.step();
    pulse.stop();
    EXPECT_THROW(rank.step(), RunError);
  };
  run_rank_threads(
      1,
      [&](Communicator& comm) {
        return std::make_unique<TrainingRank>(plan, batches, comm, &pulse);
      },
      work);
  EXPECT_EQ(parts, 9);
}

// ---
// The closed forms of what a model takes around its attention, against a real model on ranks.

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

}  // namespace
}  // namespace ringscope
