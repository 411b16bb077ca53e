// All rows of all ranks, by the positions that chunks give them, and scores by distance alone.
#include <string>
#include <vector>

#include "lessons/book/exercise_test.h"

void check(Exercise& exercise) {
  const int seqlen = 24;
  for (const int n : {1, 2, 3}) {
    std::vector<double> x(seqlen, 3), y(seqlen, 4);  // by position
    const int chunk = seqlen / (2 * n);
    for (int rank = 0; rank < n; ++rank)
      for (int row = 0; row < 2 * chunk; ++row) {
        const int position = row < chunk ? rank * chunk + row : seqlen - (rank + 2) * chunk + row;
        auto at = static_cast<std::size_t>(position);
        turn(x[at], y[at], row, {rank, n, seqlen}, 0.1);
      }
    double length = 0, way = 0, distance = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      length = std::fmax(length, std::abs(std::hypot(x[i], y[i]) - 5));
      way = std::fmax(
          way, std::abs(std::atan2(y[i], x[i]) -
                        std::remainder(std::atan2(4, 3) + 0.1 * static_cast<double>(i), 2 * M_PI)));
      for (std::size_t j = 0; j < x.size(); ++j)
        distance = std::fmax(
            distance,
            std::abs(x[i] * x[j] + y[i] * y[j] -
                     25 * std::cos(0.1 * (static_cast<double>(i) - static_cast<double>(j)))));
    }
    const std::string ranks = std::to_string(n) + " ranks: ";
    exercise.near(ranks + "change of a length", length, 0, 1e-12);
    exercise.near(ranks + "error of an angle", way, 0, 1e-12);
    exercise.near(ranks + "error of a score", distance, 0, 1e-9);
  }
}
