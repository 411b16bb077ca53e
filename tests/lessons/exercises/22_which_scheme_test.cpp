// Every number names its head and row, so each place says what should be there; then group sizes by
// hand: where heads run out, and where a ring alone sends less.
#include <string>

#include "tests/lessons/exercises/exercise_test.h"

void check(Exercise& exercise) {
  for (const std::size_t ranks : {1u, 2u, 4u})
    for (const std::size_t heads : {4u, 8u}) {
      const std::size_t rows = 3, mine = heads / ranks;
      Shares share(ranks), expected(ranks);
      for (std::size_t r = 0; r < ranks; ++r)
        for (std::size_t h = 0; h < heads; ++h)
          for (std::size_t i = 0; i < rows; ++i)
            share[r].push_back(static_cast<double>(100 * h + r * rows + i));
      for (std::size_t r = 0; r < ranks; ++r)
        for (std::size_t h = r * mine; h < (r + 1) * mine; ++h)
          for (std::size_t i = 0; i < ranks * rows; ++i)
            expected[r].push_back(static_cast<double>(100 * h + i));
      exercise.holds(std::to_string(heads) + " heads on " + std::to_string(ranks) + " ranks",
                     to_heads(share, heads, rows) == expected);
    }
  exercise.equal("16 ranks, 32 heads, 8 of K and V", best_group(16, 32, 8), 8);
  exercise.equal("4 ranks, 32 heads, 32 of K and V", best_group(4, 32, 32), 4);
  exercise.equal("4 ranks, 32 heads, 1 of K and V", best_group(4, 32, 1), 1);
  exercise.equal("2 ranks, 32 heads, 8 of K and V", best_group(2, 32, 8), 1);
  exercise.equal("4 ranks, 32 heads, 8 of K and V", best_group(4, 32, 8), 1);
  exercise.equal("12 ranks, 32 heads, 8 of K and V", best_group(12, 32, 8), 4);
  exercise.equal("12 ranks, 24 heads, 24 of K and V", best_group(12, 24, 24), 12);
}
