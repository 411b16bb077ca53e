#include "core/model/weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"

namespace ringscope {
namespace {

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
