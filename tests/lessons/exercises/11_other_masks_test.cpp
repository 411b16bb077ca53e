// Both functions against counting pairs one by one.
#include <string>

#include "tests/lessons/exercises/exercise_test.h"

void check(Exercise& exercise) {
  for (const int window : {1, 3, 100}) {
    int wrong = 0;
    for (const int begin : {0, 7})
      for (int i = begin; i < begin + 12; ++i) {
        const Keys keys = allowed_keys(i, window, begin);
        for (int j = 0; j < 30; ++j) {
          const bool allowed = j >= begin && j <= i && i - j < window;
          wrong += (keys.first <= j && j < keys.last) != allowed;
        }
      }
    exercise.equal("window " + std::to_string(window) + ": pairs that are wrong", wrong, 0);
  }

  for (const auto& [rows, window] : {std::pair{4, 1}, {4, 2}, {4, 4}, {4, 5}, {4, 6}, {3, 100}}) {
    int wrong = 0;
    for (int rank = 0; rank < 6; ++rank) {
      int blocks = 0;
      for (int owner = 0; owner < 6; ++owner) {
        bool work = false;
        for (int i = rank * rows; i < (rank + 1) * rows; ++i)
          for (int j = owner * rows; j < (owner + 1) * rows; ++j)
            work = work || (j <= i && i - j < window);
        blocks += work;
      }
      wrong += blocks_to_meet(rank, rows, window) != blocks;
    }
    exercise.equal(std::to_string(rows) + " rows per rank, window " + std::to_string(window) +
                       ": ranks that are wrong",
                   wrong, 0);
  }
}
