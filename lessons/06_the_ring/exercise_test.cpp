// Against the formula owner = (rank - step) mod N.
#include "lessons/book/exercise_test.h"

#include <string>
#include <vector>

#include RINGSCOPE_EXERCISE

int main() {
  ringscope::lessons::Exercise exercise;
  for (const int n : {1, 2, 3, 4, 7}) {
    std::vector<double> own;
    for (int r = 0; r < n; ++r) own.push_back(1 << (2 * r));
    const std::vector<double> sums = ring_sums(own);
    exercise.equal(std::to_string(n) + " ranks: sums", static_cast<double>(sums.size()), n);
    for (int r = 0; r < n && r < static_cast<int>(sums.size()); ++r) {
      double expected = 0;
      for (int step = 0; step < n; ++step)
        expected += own[static_cast<std::size_t>((r - step + n) % n)] * (1.0 + step);
      exercise.equal(std::to_string(n) + " ranks: rank " + std::to_string(r),
                     sums[static_cast<std::size_t>(r)], expected);
    }
  }
  return exercise.finish();
}
