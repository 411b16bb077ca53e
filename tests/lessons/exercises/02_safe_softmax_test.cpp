// Scores whose weights can be done in the head, far up and far down, and rows with forbidden keys.
#include <vector>

#include "tests/lessons/exercises/exercise_test.h"

void check(Exercise& exercise) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const float of_2 = std::log(2.0f), of_5 = std::log(5.0f);
  for (const float shift : {0.0f, 100.0f, 10000.0f, -10000.0f}) {
    const std::string name = "scores near " + std::to_string(static_cast<int>(shift));
    const SoftmaxOfRow row = softmax({shift, shift + of_2, kNone, shift + of_5});
    const double expected[] = {0.125, 0.25, 0, 0.625};
    double off = row.weights.size() == 4 ? 0 : 1;
    for (std::size_t j = 0; j < 4 && off <= 1; ++j) {
      const double error = std::abs(double{row.weights[j]} - expected[j]);
      off = error <= off ? off : error;  // a NaN stays
    }
    exercise.near(name + ": largest error of a weight", off, 0, 1e-3);
    exercise.near(name + ": lse", row.lse, double{shift} + std::log(8.0), 2e-3);
  }
  const SoftmaxOfRow close = softmax({0, 88.5, 88.5});
  exercise.near("two scores of 88.5: the weight of one", double{close.weights[1]}, 0.5, 1e-6);
  const SoftmaxOfRow none = softmax({kNone, kNone});
  exercise.holds("forbidden keys alone: weights 0", none.weights[0] == 0 && none.weights[1] == 0);
  exercise.holds("forbidden keys alone: lse -infinity", none.lse < 0 && std::isinf(none.lse));
}
