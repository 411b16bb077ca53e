// Ties, neighbours and signs against the project's own rounding, and sums that must not stand still.
#include <vector>

#include "core/base/dtype.h"
#include "core/base/random.h"
#include "tests/lessons/exercises/exercise_test.h"

using namespace ringscope;

void check(Exercise& exercise) {
  exercise.equal("36.881 is stored as", double{to_bf16(36.881f)}, 37);
  exercise.equal("257 is a tie, and becomes", double{to_bf16(257)}, 256);
  exercise.equal("259 is a tie, and becomes", double{to_bf16(259)}, 260);
  exercise.equal("-259 becomes", double{to_bf16(-259)}, -260);
  exercise.equal("0.0 stays", double{to_bf16(0)}, 0);
  int wrong = 0;
  for (Index i = 0; i < 1000; ++i) {
    const auto x = static_cast<float>(100 * normal(1, RandomTensor::q, i));
    wrong += to_bf16(x) != round_to(DType::bf16, x);
  }
  exercise.equal("of 1,000 random numbers, wrong", wrong, 0);
  exercise.equal("a thousand ones", double{sum_of(std::vector<float>(1000, 1))}, 1000);
  exercise.equal("256 and ten ones", double{sum_of({256, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})}, 266);
}
