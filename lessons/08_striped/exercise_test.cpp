// There and back for every position, and the mask for every pair, counted by position.
#include "lessons/book/exercise_test.h"

#include <string>

#include RINGSCOPE_EXERCISE

int main() {
  ringscope::lessons::Exercise exercise;
  for (const int n : {1, 3, 4}) {
    const std::string ranks = std::to_string(n) + " ranks: ";
    int wrong_row = 0, wrong_position = 0, wrong_mask = 0;
    for (int p = 0; p < 24; ++p) {
      wrong_row += rank_of(p, n) != p - p / n * n || local_row(p, n) != p / n;
      wrong_position += position(p % n, p / n, n) != p;
      for (int key = 0; key < 24; ++key)
        wrong_mask += may_attend(p % n, p / n, key % n, key / n, n) != (key <= p);
    }
    exercise.equal(ranks + "positions with a wrong rank or row", wrong_row, 0);
    exercise.equal(ranks + "rows with a wrong position", wrong_position, 0);
    exercise.equal(ranks + "pairs that are wrong", wrong_mask, 0);
  }
  return exercise.finish();
}
