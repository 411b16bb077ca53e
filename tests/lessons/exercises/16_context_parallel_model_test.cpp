// A weight's gradient is a number a row here; ranks add up those of their own rows that count.
#include <cmath>
#include <string>
#include <vector>

#include "tests/lessons/exercises/exercise_test.h"

namespace {

struct Rank {
  double sum = 0;  // of the rows' gradients
  long count = 0;  // of the rows that count
};

// `counts`: how many rows count on each rank.
std::vector<Rank> ranks_with(const std::vector<long>& counts) {
  std::vector<Rank> ranks;
  int row = 0;
  for (const long count : counts) {
    ranks.push_back({0, count});
    for (long i = 0; i < count; ++i) ranks.back().sum += std::sin(1.3 * ++row) + 0.4;
  }
  return ranks;
}

}  // namespace

void check(Exercise& exercise) {
  for (const std::vector<long>& counts : std::vector<std::vector<long>>{
           {8}, {4, 4, 4, 4}, {3, 3, 2, 2}, {4, 4, 4, 1}, {5, 0, 0}, {0, 1}, {0, 0}})
    for (const Kind kind : {Kind::mean, Kind::sum}) {
      const std::vector<Rank> ranks = ranks_with(counts);
      const int n = static_cast<int>(ranks.size());
      double sum = 0;
      long all = 0;
      std::string name = kind == Kind::mean ? "mean, rows that count:" : "sum, rows that count:";
      for (const Rank& rank : ranks) {
        sum += rank.sum;
        all += rank.count;
        name += " " + std::to_string(rank.count);
      }
      double averaged = 0;
      for (const Rank& rank : ranks) {
        const bool divides = kind == Kind::mean && rank.count > 0;
        const double own = divides ? rank.sum / static_cast<double>(rank.count) : rank.sum;
        averaged += factor(kind, rank.count, all, n) * own / n;
      }
      const double expected = kind == Kind::mean && all > 0 ? sum / static_cast<double>(all) : sum;
      exercise.near(name, averaged, expected, 1e-12);
    }
}
