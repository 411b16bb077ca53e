// Scores in range, far above it, far below it, and forbidden ones.
#include <limits>
#include <string>
#include <vector>

#include "tests/lessons/exercises/exercise_test.h"

void check(Exercise& exercise) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const float shift : {0.0f, 1000.0f, -1000.0f}) {
    const std::string at = shift == 0 ? "" : " beside " + std::to_string(static_cast<int>(shift));
    const double expected = static_cast<double>(shift) + 3.40760596;  // log(e + e^2 + e^3)
    exercise.near("1, 2, 3" + at, lse({shift + 1, shift + 2, shift + 3}), expected, 1e-3);
    exercise.near("with a forbidden key" + at, lse({shift + 1, kNone, shift + 2, shift + 3}),
                  expected, 1e-3);
  }
  exercise.near("one score", lse({5}), 5, 1e-6);
  exercise.equal("a row of forbidden keys has -infinity", lse({kNone, kNone}), kNone);
  exercise.equal("a row without keys has -infinity", lse({}), kNone);
}
