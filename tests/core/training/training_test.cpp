#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/training/layers.h"
#include "core/training/rank_threads.h"
#include "core/training/training.h"
#include "core/training/weights.h"
#include "tests/core/base/thrown.h"
#include "tests/core/training/train_case.h"

namespace ringscope {
namespace {

TEST(TextBatches, ArePiecesOfTheTextThatOnlyTheStepDecides) {
  const std::string text = small_text();
  const TextBatches batches(text, 3, 10, 5);
  for (Index step = 0; step < 20; ++step) {
    const std::vector<std::uint8_t> windows = batches.windows(step);
    ASSERT_EQ(windows.size(), 33u);
    for (int b = 0; b < 3; ++b)
      expect_contains(text, std::string(windows.begin() + 11 * b, windows.begin() + 11 * (b + 1)));
    EXPECT_EQ(TextBatches(text, 3, 10, 5).windows(step), windows);
    EXPECT_NE(batches.windows(step + 1), windows);
  }
}

// Of a text with room for one piece, that one; of a shorter one, none.
TEST(TextBatches, NeedRoomForAPiece) {
  EXPECT_EQ(TextBatches("ab", 1, 1, 0).windows(3), (std::vector<std::uint8_t>{'a', 'b'}));
  EXPECT_THROW(TextBatches("a", 1, 1, 0), InputError);
  EXPECT_THROW(TextBatches("", 1, 1, 0), InputError);
  EXPECT_THROW(TextBatches("abc", 1, 3, 0), InputError);
}

// An embedding has no row for them.
TEST(TextBatches, RefuseBytesThatTheModelDoesNotKnow) {
  EXPECT_NO_THROW(TextBatches("ab\xff", 1, 1, 0));
  EXPECT_NO_THROW(TextBatches("ab", 1, 1, 0, 'c'));
  expect_contains(input_error_of([] { TextBatches("ab", 1, 1, 0, 'b'); }), "a byte of 98 at 1");
}

TEST(TextBatches, EntropyOfBytes) {
  EXPECT_EQ(unigram_entropy(""), 0);
  EXPECT_EQ(unigram_entropy("aaaa"), 0);
  EXPECT_NEAR(unigram_entropy("abab"), std::log(2), 1e-15);
  EXPECT_NEAR(unigram_entropy("abcabcabcd\xff\xff"),
              3 * 0.25 * std::log(4) + std::log(12) / 12 + std::log(6) / 6, 1e-15);
}

// Better than any model can be that only knows how often each byte occurs.
TEST(Training, LearnsATextFromItsContext) {
  const std::string text = small_text();
  std::vector<double> losses;
  train_on_threads({small_settings(), {PartitionKind::striped, 2}, nullptr, 60}, text,
                   [&](const StepReport& report, const TrainingRank&) {
                     EXPECT_EQ(report.step, static_cast<Index>(losses.size()) + 1);
                     EXPECT_GT(report.gradient_length, 0);
                     losses.push_back(report.loss);
                   });
  ASSERT_EQ(losses.size(), 60u);
  EXPECT_NEAR(losses.front(), std::log(256), 0.5);  // it begins by knowing nothing
  EXPECT_LE(losses.back(), 0.7 * unigram_entropy(text));
}

// With heads to be dealt out, and a mask by which blocks travel in parts.
TrainingSettings with_heads() {
  TrainingSettings settings = small_settings();
  settings.shape.num_heads_kv = 2;
  settings.mask = "causal+window:4";
  return settings;
}

std::vector<double> losses_of(const TrainingSettings& settings, const Deal& deal) {
  std::vector<double> losses;
  train_on_threads(
      {settings, deal, nullptr, 20}, small_text(),
      [&](const StepReport& report, const TrainingRank&) { losses.push_back(report.loss); });
  return losses;
}

// Return the largest of the differences, relative to what is expected.
double largest_difference(const std::vector<double>& losses, const std::vector<double>& expected) {
  EXPECT_EQ(losses.size(), expected.size());
  double largest = 0;
  for (std::size_t step = 0; step < expected.size(); ++step) {
    const double difference = std::abs(losses.at(step) / expected[step] - 1);
    EXPECT_TRUE(std::isfinite(difference)) << "step " << step;
    largest = std::max(largest, difference);
  }
  return largest;
}

// f32: sums in another order differ by some 2^-24, which 20 steps carry on to less than 1e-4. bf16: such
// a difference can send an operand to its other neighbour in bf16, 2^-8 away, where it is between them;
// most are not, so the losses differ by less than one such step.
TEST(Training, LossesAreTheSameForTensorAndDataGroups) {
  const TrainingSettings settings = with_heads();
  std::vector<std::vector<double>> expected;
  for (const auto& [dtype, bound] : {std::pair{DType::f32, 1e-4}, {DType::bf16, 0x1p-8}}) {
    expected.push_back(losses_of(settings, {PartitionKind::contiguous, 1, 1, 1, 1, dtype}));
    for (const auto& [context, tensor, data] :
         {std::array{1, 2, 1}, {1, 1, 2}, {3, 2, 1}, {2, 1, 2}, {2, 2, 2}}) {
      const PartitionKind partition =
          (dtype == DType::f32) == (data == 2) ? PartitionKind::contiguous : PartitionKind::zigzag;
      const Deal deal{partition, context, 1, tensor, data, dtype, Hops::needed};
      EXPECT_LE(largest_difference(losses_of(settings, deal), expected.back()), bound)
          << name_of(dtype) << ", " << context << " x " << tensor << " x " << data << ", "
          << name_of(partition);
    }
  }
  // It is another arithmetic, and learns as well.
  const double difference = largest_difference(expected[1], expected[0]);
  EXPECT_GT(difference, 1e-4);
  EXPECT_LT(difference, 0x1p-5);
}

// To the bit, before the first step and after some.
TEST(Training, ACheckpointIsThatOfTheWholeModel) {
  const TrainingSettings settings = with_heads();
  const auto bytes_of = [&](const Deal& deal, const Checkpoint* start, Index steps) {
    return to_bytes(train_on_threads({settings, deal, start, steps}, small_text()).end);
  };
  const Deal one{PartitionKind::contiguous, 1}, grid{PartitionKind::contiguous, 2, 1, 2, 2};
  EXPECT_TRUE(bytes_of(grid, nullptr, 0) == bytes_of(one, nullptr, 0));
  for (const auto& [from, to] : {std::pair{one, grid}, {grid, one}}) {
    const Checkpoint start = checkpoint_from(bytes_of(from, nullptr, 3));
    EXPECT_TRUE(bytes_of(to, &start, 3) == to_bytes(start));
  }
  // It may be taken between the steps, too.
  std::string between;
  TrainingPlan plan{settings, grid, nullptr, 3};
  plan.checkpoint_every = 2;
  train_on_threads(plan, small_text(), [&](const StepReport& report, const TrainingRank& rank) {
    if (report.step == 2) between = to_bytes(rank.checkpoint());
  });
  EXPECT_TRUE(between == bytes_of(grid, nullptr, 2));
}

TEST(Training, WeightsStayTheSameBitsOnEveryRankAndEveryTime) {
  for (const PartitionKind partition : kAllPartitions) {
    const TrainingPlan plan{small_settings(), {partition, 3}, nullptr, 20};
    const TextBatches batches(small_text(), plan.settings.batch, plan.settings.seqlen, 7);
    const std::string expected = to_bytes(train_on_threads(plan, small_text()).end);
    const auto make = [&](Communicator& comm) {
      return std::make_unique<TrainingRank>(plan, batches, comm);
    };
    for (const auto& rank : run_rank_threads(3, make, [](TrainingRank& mine) { mine.run({}); }))
      EXPECT_TRUE(to_bytes(rank->checkpoint()) == expected) << rank->rank();
  }
}

// Loss and gradients are finite, but what the update makes of them is not: nobody may save that.
TEST(Training, EndsWhenItsWeightsOverflow) {
  TrainingSettings settings = small_settings();
  settings.adam.rate = 1e40;
  const auto train = [&] {
    train_on_threads({settings, {PartitionKind::zigzag, 2}, nullptr, 1}, small_text());
  };
  expect_contains(run_error_of(train), "diverged: at step 1 weights");
}

// Logits so far apart that a plain exponential would overflow.
TEST(CrossEntropy, OfLargeLogits) {
  const std::uint8_t targets[] = {0, 1};
  float logits[] = {1000, 0, -1000, 1000, 0, -1000};
  EXPECT_NEAR(cross_entropy(2, 3, targets, 1, logits), 1000, 1e-9);
  const float expected[] = {0, 0, 0, 1, -1, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(logits[i], expected[i]);
}

// ---

// A gain and two matrix values.
struct ThreeWeights {
  ThreeWeights() {
    layout.add_gain("gain", 1);
    layout.add_matrix("matrix", 1, 2, 0.5);
  }
  ParameterLayout layout;
};

// Step by step as the formula says, in f64.
TEST(AdamW, FollowsTheFormula) {
  const ThreeWeights weights;
  ParameterStore store(weights.layout, 4, nullptr);
  AdamWSettings settings{.rate = 0.1,
                         .beta1 = 0.8,
                         .beta2 = 0.9,
                         .epsilon = 1e-3,
                         .decay = 0.5,
                         .longest_gradient = 2,
                         .warmup_steps = 2};
  AdamW adam(weights.layout, settings, nullptr);
  double w[3], m[3] = {}, v[3] = {};
  for (int i = 0; i < 3; ++i) w[i] = store.values()[i];
  EXPECT_EQ(w[0], 1);  // a gain begins as one
  for (int t = 1; t <= 4; ++t) {
    const double gradient[3] = {0.5 * t, -1, 0.25};
    const double length = std::sqrt(gradient[0] * gradient[0] + gradient[1] * gradient[1] + 0.0625);
    for (int i = 0; i < 3; ++i) {
      const double g = gradient[i] * (length > 2 ? 2 / length : 1);
      m[i] = 0.8 * m[i] + 0.2 * g;
      v[i] = 0.9 * v[i] + 0.1 * g * g;
      const double mean = m[i] / (1 - std::pow(0.8, t)), square = v[i] / (1 - std::pow(0.9, t));
      const double rate = t == 1 ? 0.05 : 0.1;
      w[i] -= rate * (mean / (std::sqrt(square) + 1e-3) + (i == 0 ? 0 : 0.5) * w[i]);
      store.gradients()[i] = static_cast<float>(gradient[i]);
    }
    EXPECT_NEAR(std::sqrt(store.squares({0, 1, 3})), length, 1e-6);
    adam.update(store, length);
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(store.values()[i], w[i], 1e-6) << "step " << t;
  }
  EXPECT_EQ(adam.steps(), 4);
}

TEST(AdamW, RefusesSettingsThatMakeNoSense) {
  EXPECT_NO_THROW(validate(AdamWSettings{}));
  EXPECT_THROW(validate(AdamWSettings{.rate = 0}), InputError);
  EXPECT_THROW(validate(AdamWSettings{.rate = NAN}), InputError);
  EXPECT_THROW(validate(AdamWSettings{.beta1 = 1}), InputError);
  EXPECT_THROW(validate(AdamWSettings{.beta2 = NAN}), InputError);
  EXPECT_THROW(validate(AdamWSettings{.decay = -1}), InputError);
}

}  // namespace
}  // namespace ringscope
