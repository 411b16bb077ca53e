// Tokens are dealt one by one; then there and back for every position, and the mask for every pair.
#include <string>
#include <vector>

#include "lessons/book/exercise_test.h"

void check(Exercise& exercise) {
  for (const Deal& deal : {Deal{1, 1}, {3, 1}, {4, 1}, {2, 3}, {4, 2}}) {
    const std::string name =
        std::to_string(deal.world_size) + " ranks, stripes of " + std::to_string(deal.width) + ": ";
    std::vector<int> rank, row, rows_of(static_cast<std::size_t>(deal.world_size));
    for (int to = 0; rank.size() < 24; to = (to + 1) % deal.world_size)
      for (int card = 0; card < deal.width; ++card) {
        rank.push_back(to);
        row.push_back(rows_of[static_cast<std::size_t>(to)]++);
      }
    int wrong_row = 0, wrong_position = 0, wrong_mask = 0;
    for (int p = 0; p < 24; ++p) {
      const auto at = static_cast<std::size_t>(p);
      wrong_row += rank_of(p, deal) != rank[at] || local_row(p, deal) != row[at];
      wrong_position += position(rank[at], row[at], deal) != p;
      for (std::size_t key = 0; key < 24; ++key)
        wrong_mask += may_attend(rank[at], row[at], rank[key], row[key], deal) != (key <= at);
    }
    exercise.equal(name + "positions with a wrong rank or row", wrong_row, 0);
    exercise.equal(name + "rows with a wrong position", wrong_position, 0);
    exercise.equal(name + "pairs that are wrong", wrong_mask, 0);
  }
}
