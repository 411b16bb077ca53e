// Numbers that can be done in the head, below the crossover, at it and above.
#include "tests/lessons/exercises/exercise_test.h"

void check(Exercise& exercise) {
  const Machine a100{312e12, 300e9}, simple{1e12, 1e9};
  const Layer equal{32, 32, 128, 2}, grouped{32, 8, 128, 2}, wide{1, 1, 64, 4};
  exercise.near("an A100 with NVLink3, bf16", crossover(a100, equal), 1040, 1e-6);
  exercise.near("a quarter of the KV heads", crossover(a100, grouped), 260, 1e-6);
  exercise.near("F/B = 1,000 in f32", crossover(simple, wide), 2000, 1e-6);
  exercise.near("head_dim plays no part", crossover(simple, {1, 1, 128, 4}), 2000, 1e-6);

  // 1,000 rows: a hop of 512,000 bytes takes 512 us, a step of 256 million operations 256 us.
  exercise.near("1,000 rows on 4 ranks, exposed", exposed(simple, wide, 1000, 4), 768e-6, 1e-12);
  exercise.near("at the crossover", exposed(simple, wide, 2000, 4), 0, 1e-12);
  exercise.near("above it", exposed(simple, wide, 3000, 4), 0, 1e-12);
  exercise.near("on one rank", exposed(simple, wide, 1000, 1), 0, 1e-12);
}
