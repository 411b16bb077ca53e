// All pairs of all meetings of a few small rings, by position.
#include "lessons/book/exercise_test.h"

#include <string>

#include RINGSCOPE_EXERCISE

int main() {
  ringscope::lessons::Exercise exercise;
  constexpr int half = 3;
  for (const int n : {1, 2, 4}) {
    for (int rank = 0; rank < n; ++rank) {
      const std::string name = "rank " + std::to_string(rank) + " of " + std::to_string(n) + ": ";
      exercise.equal(name + "early chunk", early_chunk(rank, n), rank);
      exercise.equal(name + "late chunk", late_chunk(rank, n), 2 * n - 1 - rank);
      for (int owner = 0; owner < n; ++owner) {
        const auto position = [&](int of, int row) {
          return (row < half ? of : 2 * n - 1 - of) * half + row % half;
        };
        const Meeting yours = meeting(rank, owner, half);
        int wrong = 0;
        for (int i = 0; i < 2 * half; ++i)
          for (int j = 0; j < 2 * half; ++j) {
            const bool allowed = position(owner, j) <= position(rank, i);
            const bool said =
                i >= yours.first_query && j < yours.last_key && (!yours.is_triangle || j <= i);
            wrong += allowed != said;
          }
        exercise.equal(name + "wrong pairs with owner " + std::to_string(owner), wrong, 0);
      }
    }
  }
  return exercise.finish();
}
