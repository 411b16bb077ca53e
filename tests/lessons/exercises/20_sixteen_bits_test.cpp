// Ties, carries into the next power of two and both signs, against the project's rounding; then sums
// that are exact in any order of pairs, and random ones within a few roundings.
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/random.h"
#include "tests/lessons/exercises/exercise_test.h"

using namespace ringscope;

void check(Exercise& exercise) {
  for (const float value : {0.0f, 1.0f, 257.0f, 259.0f, 255.5f, 36.881f, 1.001f, -257.0f, -259.0f,
                            3.14159f, 511.0f, 1e-20f, 123456.0f})
    exercise.equal("rounded: " + std::to_string(value), double{to_bf16(value)},
                   double{round_to(DType::bf16, value)});
  exercise.equal("no values", double{sum_in_bf16({})}, 0);
  for (const std::size_t ones : {1u, 256u, 1000u, 4096u})
    exercise.equal(std::to_string(ones) + " ones",
                   double{sum_in_bf16(std::vector<float>(ones, 1.0f))},
                   double{round_to(DType::bf16, static_cast<float>(ones))});
  std::vector<float> values;
  double exact = 0;
  for (int i = 0; i < 5000; ++i) {
    values.push_back(static_cast<float>(1 + unit_interval(random_bits(1, 0, i))));
    exact += double{values.back()};
  }
  exercise.near("5,000 random numbers", double{sum_in_bf16(values)}, exact, exact / 64);
}
