// The turns in which blocks of kernels 09 and 11 add dQ (cuda/kernels/one_pass.h): every turn comes, also
// where keys have gaps. What turns cost, gpu-check measures.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/kernels/one_pass.h"

namespace ringscope::cuda {
namespace {

// Keys that no query meets stand between others, and the last tiles are cut off. Every turn comes:
// what a key tile waits for, one before it has passed. The first that visits a tile stores its part, and
// no other does.
template <bool kByHead>
void expect_turns_where_keys_have_gaps() {
  constexpr int kRows = 700, kKeys = 900, kQueries = 64;
  for (const int gap : {1, 128, 300, 512}) {
    std::vector<RowInterval> allowed_queries;
    for (int key = 0; key < kKeys; ++key) {
      const int middle = std::min(key, kRows);
      const bool is_met = key / gap % 2 == 0;
      allowed_queries.push_back({middle, is_met ? std::min(middle + 150, kRows) : middle});
    }
    int last = 0;  // ends never decrease
    for (RowInterval& each : allowed_queries) each.last = last = std::max(last, each.last);
    for (RowInterval& each : allowed_queries) each.first = std::min(each.first, each.last);
    BackwardStep step;
    step.shape = {2, 4, 2, kRows, kKeys, 64};
    step.first = true;
    step.allowed_queries = allowed_queries.data();
    const int tiles = tiles_for(kRows, kQueries);
    std::vector<int> turns;
    std::vector<bool> is_stored(static_cast<std::size_t>(8 * tiles), false);
    for (int i = 0; i < 8 * tiles; ++i) turns.push_back(first_turn(step, i % tiles * kQueries));
    for (unsigned number = 0; number < OnePassItem<kQueries, kByHead>::items(step.shape);
         ++number) {
      OnePassItem<kQueries, kByHead> item;
      item.set(step, number, 3);
      int visits = 0;
      item.for_each_visit(item.last_tile, [&](int matrix, int tile) {
        const auto at = static_cast<std::size_t>(matrix * tiles + tile);
        EXPECT_EQ(tile >= item.first_store, !is_stored[at]) << "gap " << gap;
        is_stored[at] = true;
        EXPECT_EQ(tile, item.visiting_tile(static_cast<unsigned>(visits)));
        EXPECT_EQ(matrix, item.first_matrix + visits % item.heads());
        ++visits;
      });
      EXPECT_EQ(visits, item.visits());
      item.for_each_visit(item.last_turn, [&](int matrix, int tile) {
        int& turn = turns[static_cast<std::size_t>(matrix * tiles + tile)];
        EXPECT_EQ(turn, item.tile) << "gap " << gap;
        turn = item.tile + 1;
      });
    }
  }
}

TEST(DqTurns, ComeWhereKeysHaveGaps) {
  expect_turns_where_keys_have_gaps<false>();
  expect_turns_where_keys_have_gaps<true>();
}

}  // namespace
}  // namespace ringscope::cuda
