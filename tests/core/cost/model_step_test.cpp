// The time of a model's step, against sums written out here. (What real models do:
// tests/core/model/model_cost_test.cpp.)
#include "core/cost/model_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/cost/time.h"

namespace ringscope {
namespace model_step_test {

const Rates kRates{1e10, 8e9, 4e7, 2e-4};
const ModelSizes kSizes{48, 130, 256};
// Every figure another one, so that none can stand for another.
const ModelFigures kFigures{3e9, {1e-9, 2e-9}, {3e-9, 5e-9}, {7e-9, 11e-9}, {13e-9, 17e-9}, 19e-9};

Problem job_of(int n, bool backward) {
  Problem job;
  job.shape = {2, 8, 4, 1023, 16};
  job.world_size = n;
  job.backward = backward;
  job.layers = 5;
  return job;
}

StepTime time_of(const Problem& job) {
  return step_time(job, kSizes, job.max_rows(), layer_time(job, balance_of(job), kRates).total(),
                   kFigures, kRates);
}

TEST(ModelStep, IsTheSumOfItsParts) {
  for (const int n : {1, 2, 4})
    for (const bool backward : {false, true}) {
      const Problem job = job_of(n, backward);
      const StepTime time = time_of(job);
      const double tokens = 2 * std::ceil(1023.0 / n), products = (backward ? 3 : 1) / 3e9;
      const auto both = [&](double forward, double back) {
        return tokens * (backward ? forward + back : forward);
      };
      EXPECT_DOUBLE_EQ(time.attention, 5 * layer_time(job, balance_of(job), kRates).total());
      EXPECT_DOUBLE_EQ(time.projections, 5 * products * 2 * tokens * 48 * 16 * (8 + 4 + 4 + 8));
      EXPECT_DOUBLE_EQ(time.mlp, 5 * products * 2 * tokens * 48 * 130 * 3);
      EXPECT_NEAR(
          time.values,
          5 * (2 * 48 * both(1e-9, 2e-9) + 130 * both(3e-9, 5e-9) + 24 * 16 * both(7e-9, 11e-9)),
          1e-12);
      EXPECT_NEAR(
          time.head,
          products * 2 * tokens * 48 * 256 + 48 * both(1e-9, 2e-9) + 256 * both(13e-9, 17e-9),
          1e-12);
      const double weights = 256 * 48 + 48 + 5 * (48 * (24 * 16) + 3 * 48 * 130 + 2 * 48);
      EXPECT_DOUBLE_EQ(time.update, backward ? weights * 19e-9 : 0);
      EXPECT_NEAR(
          time.reduction,
          backward && n > 1 ? 2 * (n - 1.0) / n * 4 * (weights + 1) / 4e7 + 2 * (n - 1) * 2e-4 : 0,
          1e-12);
      EXPECT_DOUBLE_EQ(time.total(), time.attention + time.projections + time.mlp + time.values +
                                         time.head + time.reduction + time.update);
      EXPECT_DOUBLE_EQ(time.attention_share(), time.attention / time.total());
      EXPECT_DOUBLE_EQ(time.layer() * 5,
                       time.attention + time.projections + time.mlp + time.values);
    }
}

// The longer the sequence, the more of a step is attention: the rest grows with it, attention with
// its square.
TEST(ModelStep, AttentionsShareGrowsWithTheSequence) {
  double share = 0;
  for (const Index seqlen : {64, 512, 4096, 32768}) {
    Problem job = job_of(2, true);
    job.shape.seqlen = seqlen;
    const double now = time_of(job).attention_share();
    EXPECT_GT(now, share);
    share = now;
  }
  EXPECT_GT(share, 0.9);
}

TEST(ModelStep, FiguresOfTheTable) {
  Gpu gpu;
  gpu.flops_16bit = 100e12;
  gpu.flops_f32 = 10e12;
  gpu.forward_share = 0.5;
  EXPECT_EQ(model_figures(gpu, DType::bf16).product_flops, 50e12);
  EXPECT_EQ(model_figures(gpu, DType::f32).product_flops, 5e12);
  EXPECT_EQ(model_figures(gpu, DType::f32).norm.forward, 0);  // nothing is known of its memory
  EXPECT_EQ(model_figures(gpu, DType::f32).update_s, 0);
  gpu.memory_bytes_per_s = 2e12;
  const ModelFigures figures = model_figures(gpu, DType::bf16);
  EXPECT_DOUBLE_EQ(figures.norm.forward, 4 * 2 / 2e12);
  EXPECT_DOUBLE_EQ(figures.gate.backward, 5 * 2 / 2e12);
  EXPECT_DOUBLE_EQ(figures.update_s, 8 * 4 / 2e12);  // f32, whatever is computed in
  gpu.flops_f32.reset();
  EXPECT_THROW(model_figures(gpu, DType::f32), InputError);
}

}  // namespace model_step_test
}  // namespace ringscope
