// What a training run costs, as it was counted, against what formulas say of it.
#include "core/model/training_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/model/checkpoint.h"
#include "core/model/rank_threads.h"
#include "tests/core/model/train_case.h"

namespace ringscope {
namespace {

FinishedTraining finished(const TrainingSettings& settings, PartitionKind partition, int world_size,
                          Index steps) {
  const TrainingPlan plan{settings, {partition, world_size}, nullptr, steps};
  validate(plan);
  return run_training_on_threads(plan, small_text());
}

// Return every way to keep less of a step.
std::vector<ModelMemory> all_memories() {
  std::vector<ModelMemory> all;
  for (const Recompute recompute : kAllRecomputes)
    for (const Index chunks : {1, 3})
      for (const int zero_stage : {0, 1}) all.push_back({zero_stage, recompute, false, chunks});
  return all;
}

// A layer's forward ring sends every block N-1 times, its backward ring the blocks N-1 times more
// and their gradients, of the same size, N times; adding up gradients takes 2 (N-1) times all of
// them in all. Nothing else is sent, but for what keeping less costs: a ring forward for all layers
// but the last where attention is computed again; with a sharded optimizer the length of each chunk
// at every step. What brings its moments together for a checkpoint is no part of a step.
TEST(TrainingRun, SendsWhatTheFormulasSay) {
  const TrainingSettings settings = small_settings();
  const Index blocks = 2 * settings.batch * settings.shape.num_heads_kv * settings.seqlen *
                       settings.shape.head_dim * 4 * settings.shape.layers;
  const Index values = ModelWeights(settings.shape).layout.size() + 1;  // and the loss
  for (const int n : {1, 2, 3, 5}) {
    const FinishedTraining run = finished(settings, PartitionKind::fold, n, 2);
    ASSERT_EQ(run.ranks.size(), static_cast<std::size_t>(n));
    Index forward = 0, backward = 0, reduction = 0;
    for (const RankCosts& costs : run.ranks) {
      EXPECT_EQ(costs.steps, 2);
      forward += costs.forward_bytes;
      backward += costs.backward_bytes;
      reduction += costs.reduction_bytes;
    }
    EXPECT_EQ(forward, 2 * (n - 1) * blocks) << n;
    EXPECT_EQ(backward, n == 1 ? 0 : 2 * (2 * n - 1) * blocks) << n;
    EXPECT_EQ(reduction, 2 * 2 * (n - 1) * 4 * values) << n;

    TrainingSettings three = settings;
    three.shape.layers = 3;
    const Index its_values = ModelWeights(three.shape).layout.size() + 1;
    for (const Index checkpoint_every : {0, 1}) {
      const FinishedTraining its_run =
          run_training_on_threads({three,
                                   {PartitionKind::fold, n, {1, Recompute::attention}},
                                   nullptr,
                                   2,
                                   0,
                                   checkpoint_every},
                                  small_text());
      Index its_forward = 0, its_backward = 0, its_reduction = 0;
      for (const RankCosts& costs : its_run.ranks) {
        its_forward += costs.forward_bytes;
        its_backward += costs.backward_bytes;
        its_reduction += costs.reduction_bytes;
      }
      EXPECT_EQ(its_forward, forward + 2 * (n - 1) * blocks * (3 + 2 - 1)) << n;
      EXPECT_EQ(its_backward, backward * 3 / settings.shape.layers) << n;
      EXPECT_EQ(its_reduction, 2 * 2 * (n - 1) * 4 * its_values + 2 * n * (n - 1) * 16) << n;
      EXPECT_EQ(its_run.end.moments.empty(), n > 1 && checkpoint_every == 0);
    }
  }
}

TEST(TrainingRun, AttentionIsAPartOfTheStep) {
  for (const RankCosts& costs : finished(small_settings(), PartitionKind::zigzag, 2, 3).ranks) {
    EXPECT_GT(costs.attention.forward, 0);
    EXPECT_GT(costs.attention.backward, 0);
    EXPECT_LT(costs.attention.forward + costs.attention.backward, costs.seconds);
  }
}

// To the byte, on every rank: what `plan` prints for the same shape.
TEST(TrainingRun, MemoryIsThatOfTheBill) {
  TrainingSettings settings = small_settings();
  settings.shape.hidden = 50;
  for (const Index layers : {0, 1, 3})
    for (const auto& [world_size, seqlen] : {std::pair{1, 31}, {2, 64}, {4, 63}, {3, 5}, {4, 3}})
      for (const ModelMemory& memory : all_memories()) {
        settings.shape.layers = layers;
        settings.seqlen = seqlen;
        const TrainingPlan plan{settings, {PartitionKind::striped, world_size, memory}, nullptr, 1};
        const FinishedTraining run = run_training_on_threads(plan, small_text());
        for (int rank = 0; rank < world_size; ++rank)
          EXPECT_EQ(static_cast<double>(run.ranks[rank].peak_bytes),
                    total_bytes(training_memory(settings, plan.deal, rank)))
              << layers << " layers, rank " << rank << " of " << world_size << ", "
              << name_of(memory.recompute) << memory.chunks << memory.zero_stage;
      }
}

// Each of them holds less than all that is kept.
TEST(TrainingRun, KeepingLessTakesLessMemory) {
  TrainingSettings settings = small_settings();
  settings.shape.layers = 6;
  const auto bytes = [&](const ModelMemory& memory) {
    return total_bytes(training_memory(settings, {PartitionKind::zigzag, 2, memory}));
  };
  const double all = bytes({});
  EXPECT_LT(bytes({0, Recompute::attention}), all);
  EXPECT_LT(bytes({0, Recompute::layer}), bytes({0, Recompute::attention}));
  EXPECT_LT(bytes({0, Recompute::layer, false, 8}), bytes({0, Recompute::layer}));
  EXPECT_LT(bytes({0, Recompute::none, false, 8}), all);
  EXPECT_LT(bytes({1}), all);
}

// The same losses, weights and moments, bit for bit, whatever is computed again or sharded; in
// pieces of a few rows but for rounding. And a checkpoint of any of them is taken up by any other.
TEST(TrainingRun, LearnsTheSameHoweverLittleIsKept) {
  TrainingSettings settings = small_settings();
  settings.shape.layers = 2;
  const std::string text = small_text();
  const auto train = [&](int world_size, const ModelMemory& memory, Index steps,
                         const Checkpoint* start = nullptr) {
    std::vector<double> losses;
    TrainingPlan plan{settings, {PartitionKind::zigzag, world_size, memory}, start, steps};
    plan.checkpoint_every = 2;
    const FinishedTraining run = run_training_on_threads(
        plan, text, [&](const StepReport& report, const TrainingRank& rank) {
          losses.push_back(report.loss);
          if (report.step % 2 == 0) {
            EXPECT_EQ(rank.checkpoint().step, report.step);
          }
        });
    return std::pair(losses, run.end);
  };
  for (const int world_size : {1, 2, 3}) {
    const auto [losses, end] = train(world_size, {}, 5);
    const Checkpoint half = train(world_size, {1, Recompute::layer}, 3).second;
    for (const ModelMemory& memory : all_memories()) {
      const auto [its_losses, its_end] = train(world_size, memory, 5);
      const Checkpoint resumed = train(world_size, memory, 5, &half).second;
      ASSERT_EQ(its_losses.size(), losses.size());
      if (memory.chunks == 1) {
        EXPECT_EQ(its_losses, losses);
        EXPECT_EQ(to_bytes(its_end), to_bytes(end));
        EXPECT_EQ(to_bytes(resumed), to_bytes(end));
      }
      for (std::size_t i = 0; i < losses.size(); ++i)
        EXPECT_NEAR(its_losses[i], losses[i], 1e-5 * losses[i]);
      for (std::size_t i = 0; i < end.values.size(); ++i)
        ASSERT_NEAR(its_end.values[i], end.values[i], 1e-4) << i;
    }
  }
}

// Between checkpoints no rank has all moments of a sharded optimizer.
TEST(TrainingRun, AShardedOptimizerIsWholeOnlyWhereTheRunSaysSo) {
  TrainingPlan plan{small_settings(), {PartitionKind::zigzag, 2, {1}}, nullptr, 3};
  plan.checkpoint_every = 2;
  const auto at = [&](Index step) {
    return [step](const StepReport& report, const TrainingRank& rank_0) {
      if (report.step == step) rank_0.checkpoint();
    };
  };
  EXPECT_ANY_THROW(run_training_on_threads(plan, small_text(), at(1)));
  EXPECT_EQ(to_bytes(run_training_on_threads(plan, small_text()).end),
            to_bytes(train_on_threads(plan.settings, plan.deal, small_text(), nullptr, 3)));
  EXPECT_NO_THROW(run_training_on_threads(plan, small_text(), at(2)));
  EXPECT_NO_THROW(run_training_on_threads(plan, small_text(), at(3)));
}

// Recording changes nothing but that there is a recording.
TEST(TrainingRun, RecordsTheStepThatIsAskedFor) {
  TrainingPlan plan{small_settings(), {PartitionKind::zigzag, 2}, nullptr, 4};
  const std::string text = small_text();
  const FinishedTraining plain = run_training_on_threads(plan, text);
  EXPECT_FALSE(plain.recording.has_value());
  plan.recorded_step = 3;
  const FinishedTraining recorded = run_training_on_threads(plan, text);
  EXPECT_EQ(recorded.end.values, plain.end.values);
  ASSERT_TRUE(recorded.recording.has_value());
  EXPECT_EQ(recorded.recording->events.size(), 2u);
  EXPECT_FALSE(recorded.recording->events[1].empty());
  for (std::size_t r = 0; r < 2; ++r)
    EXPECT_EQ(recorded.ranks[r].sent_bytes(), plain.ranks[r].sent_bytes());
}

// What is computed again is in a recording as parts of the step.
TEST(TrainingRun, RecordsWhatIsComputedAgain) {
  TrainingPlan plan{small_settings(), {PartitionKind::zigzag, 2}, nullptr, 3};
  plan.settings.shape.layers = 3;
  plan.recorded_step = 2;
  const FinishedTraining plain = run_training_on_threads(plan, small_text());
  plan.deal.memory = {1, Recompute::layer};
  const FinishedTraining again = run_training_on_threads(plan, small_text());
  EXPECT_EQ(again.end.values, plain.end.values);
  const auto parts = [](const FinishedTraining& run, ModelPart part, Pass pass) {
    return std::count_if(
        run.recording->model[1].begin(), run.recording->model[1].end(),
        [&](const ModelSpan& span) { return span.part == part && span.pass == pass; });
  };
  for (const ModelPart part : {ModelPart::attention, ModelPart::mlp, ModelPart::ring}) {
    EXPECT_EQ(parts(plain, part, Pass::forward), 3);
    EXPECT_EQ(parts(again, part, Pass::forward), 3 + 2);
    EXPECT_EQ(parts(again, part, Pass::backward), 3);
  }
}

TEST(TrainingRun, RefusesToRecordWhatIsNotTrained) {
  const std::string text = small_text();
  const Checkpoint start = train_on_threads(small_settings(), {}, text, nullptr, 2);
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
  const TrainingSettings settings = small_settings();
  const TextBatches batches(small_text(), settings.batch, settings.seqlen, settings.seed);
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
        return std::make_unique<TrainingRank>(settings, Deal{}, batches, comm, &pulse);
      },
      work);
  EXPECT_EQ(parts, 9);
}

// Ranks end a step at different times; a step that one of them has ended already is no live one.
TEST(TrainingRun, LiveStepsAreWholeHoweverFarApartRanksEnd) {
  TrainingPlan plan{small_settings(), {PartitionKind::zigzag, 2}, nullptr, 100};
  std::vector<Index> steps;
  plan.live = [&](const Recording& r) { steps.push_back(r.info.training->train_step); };
  LiveSteps live(plan);
  for (Index step = 1; steps.size() < 3 && step <= 100; ++step) {
    live.add(0, step, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    live.add(1, step, {});
  }
  EXPECT_EQ(steps.size(), 3u);
}

}  // namespace
}  // namespace ringscope
