// The kernel on the model of a GPU: its scores when threads run in three different orders, and what
// its reads cost.
#include <string>
#include <vector>

#include "cuda/emulator/simt.h"
#include "lessons/book/gpu.h"
#include "tests/lessons/exercises/exercise_test.h"

using ringscope::cuda::model::ThreadOrder;
using ringscope::lessons::MemoryCount;

void check(Exercise& exercise) {
  std::vector<float> q(32), keys(64 * 32);  // whole numbers, so that sums are exact
  for (int x = 0; x < 32; ++x) q[x] = static_cast<float>(x % 5 - 2);
  for (int i = 0; i < 64 * 32; ++i) keys[i] = static_cast<float>(i * 7 % 11 - 5);

  struct Order {
    const char* name;
    ThreadOrder order;
  };
  const Order orders[] = {{"threads in order", ThreadOrder::ascending},
                          {"the last thread first", ThreadOrder::descending},
                          {"threads in any order", ThreadOrder::shuffled}};
  for (const auto& [name, order] : orders) {
    MemoryCount global, shared;
    std::vector<float> scores(64, NAN);
    ringscope::cuda::model::set_schedule({.order = order});
    try {
      ringscope::cuda::model::run_grid(1, 64, 64 * 33 * sizeof(float), [&] {
        find_scores(q.data(), Counted(keys.data(), global),
                    ringscope::lessons::shared_floats(shared), scores.data());
      });
    } catch (const ringscope::cuda::model::ModelError& error) {
      exercise.holds(std::string(name) + ": " + error.what(), false);
      continue;
    }
    int right = 0;
    for (int j = 0; j < 64; ++j) {
      float expected = 0;
      for (int x = 0; x < 32; ++x) expected += q[x] * keys[32 * j + x];
      right += scores[j] == expected;
    }
    exercise.equal(std::string(name) + ": scores that are right", right, 64);
    if (order != ThreadOrder::ascending) continue;
    exercise.equal("values read from global memory", static_cast<double>(global.values_read()),
                   64 * 32);
    exercise.equal("pieces of 32 bytes", static_cast<double>(global.pieces()), 64 * 32 / 8);
    exercise.equal("values read from shared memory", static_cast<double>(shared.values_read()),
                   64 * 32);
    exercise.equal("rounds more than one an access",
                   static_cast<double>(shared.rounds() - shared.accesses()), 0);
  }
}
