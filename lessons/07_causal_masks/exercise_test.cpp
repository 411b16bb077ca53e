// Against counting, at every distance of two small blocks, and by hand for large ones.
#include "lessons/book/exercise_test.h"

#include <string>

#include RINGSCOPE_EXERCISE

int main() {
  ringscope::lessons::Exercise exercise;
  for (const int rows : {1, 2, 5}) {
    for (int shift = -6; shift <= 6; ++shift) {
      const int q = 10 + shift, k = 10;
      int counted = 0;
      for (int i = q; i < q + rows; ++i)
        for (int j = k; j < k + rows; ++j) counted += j <= i;
      exercise.equal(
          std::to_string(rows) + " queries from " + std::to_string(q) + " on, keys from 10 on",
          pairs(q, k, rows), counted);
    }
  }
  exercise.equal("a million rows on the diagonal", pairs(0, 0, 1e6), 500000500000.0);
  exercise.equal("a million rows, all keys before", pairs(3e6, 0, 1e6), 1e12);
  exercise.equal("a million rows, all keys ahead", pairs(0, 3e6, 1e6), 0);
  return exercise.finish();
}
