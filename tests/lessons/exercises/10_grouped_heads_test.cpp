// Shares of heads on one rank and on many, with heads of their own and with one for all.
#include <vector>

#include "tests/lessons/exercises/exercise_test.h"

void check(Exercise& exercise) {
  using Heads = std::vector<int>;
  exercise.holds("heads 6 to 11 of 32 read KV heads 1 and 2 of 8",
                 kv_heads_of(6, 12, 32, 8) == Heads{1, 2});
  exercise.holds("all of 8 heads read both of 2", kv_heads_of(0, 8, 8, 2) == Heads{0, 1});
  exercise.holds("a rank of 16 has two of 32 heads, and one of 8 KV heads",
                 kv_heads_of(14, 16, 32, 8) == Heads{3});
  exercise.holds("with heads of its own a rank reads as many",
                 kv_heads_of(2, 5, 8, 8) == Heads{2, 3, 4});
  exercise.holds("one KV head for all", kv_heads_of(5, 8, 8, 1) == Heads{0});

  using Rows = std::vector<std::vector<double>>;
  const Rows gradients = {{1, 10}, {2, 20}, {3, 30}, {4, 40}};
  exercise.holds("four query heads, two KV heads", shared(gradients, 2) == Rows{{3, 30}, {7, 70}});
  exercise.holds("one KV head adds up all four", shared(gradients, 1) == Rows{{10, 100}});
  exercise.holds("four KV heads add up nothing", shared(gradients, 4) == gradients);
}
