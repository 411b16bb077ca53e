// Machines and models whose crossovers can be told by hand, and the time on both sides of them.
#include "lessons/book/exercise_test.h"

void check(Exercise& exercise) {
  const Machine fast{312e12, 300e9}, slow{1e12, 1e9};
  const Model plain{32, 32, 128, 2}, grouped{32, 8, 128, 2}, wide{32, 32, 64, 4};
  exercise.near("two bytes, as many heads", crossover(fast, plain, 1, false), 1040, 1e-9);
  exercise.near("causal", crossover(fast, plain, 0.5, false), 2080, 1e-9);
  exercise.near("grouped heads", crossover(fast, grouped, 1, false), 260, 1e-9);
  exercise.near("four bytes", crossover(slow, wide, 1, false), 2000, 1e-9);
  exercise.near("backward", crossover(fast, plain, 1, true), 1248, 1e-9);
  exercise.near("backward, grouped and causal", crossover(fast, grouped, 0.5, true), 624, 1e-9);
  exercise.near("backward, four bytes", crossover(slow, wide, 1, true), 1600, 1e-9);
  // 1,000 rows on the slow machine: a hop of 16.384 ms beside 0.016384 s of computing.
  exercise.near("nothing exposed at the crossover", exposed_time(slow, plain, 1, 1000), 0, 1e-9);
  exercise.near("half of the hop at half of the rows", exposed_time(slow, plain, 1, 500), 0.004096,
                1e-9);
  exercise.near("nothing beyond it", exposed_time(slow, plain, 1, 5000), 0, 1e-9);
  exercise.near("a causal step hides less", exposed_time(slow, plain, 0.5, 1000), 0.008192, 1e-9);
}
