// The pipeline on the model of a GPU: for one tile, for as many as there are buffers, and for more,
// with copies that land late or at once, and threads that run in three orders.
#include <string>

#include "lessons/book/gpu.h"
#include "tests/lessons/exercises/exercise_test.h"

using ringscope::cuda::model::ThreadOrder;

void check(Exercise& exercise) {
  struct Order {
    const char* name;
    ThreadOrder order;
  };
  const Order orders[] = {{"the producer first", ThreadOrder::ascending},
                          {"the producer last", ThreadOrder::descending},
                          {"any order", ThreadOrder::shuffled}};
  for (const int tiles : {1, 3, 4, 11})
    for (const bool late : {true, false})
      for (const auto& [name, order] : orders) {
        const auto kernel = [tiles](Buffers& shared, const ringscope::cuda::TensorMap& matrix,
                                    float* sums) {
          const int thread = static_cast<int>(threadIdx.x);
          if (thread == 0) produce(shared, matrix, tiles);
          if (thread >= 32) sums[thread - 32] = consume(shared, tiles, thread - 32);
        };
        const std::string outcome = ringscope::lessons::outcome_of<3>(
            kernel, tiles, 64, {.order = order, .async_late = late});
        const std::string what = std::string("tiles: ") + std::to_string(tiles) + ", copies " +
                                 (late ? "late" : "at once") + ", " + name;
        exercise.holds(what + ": " + outcome, outcome == "right");
      }
}
