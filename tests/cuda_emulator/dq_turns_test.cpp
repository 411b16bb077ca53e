// How long the blocks of kernels 09 and 11 wait for their turns to add dQ, by a simulation of events in
// the kernels' own order (cuda/kernels/one_pass.h). It is the order that decides. 11's latencies are an
// H100's, by the warp samples of ncu; those of 09 are estimates of an RTX 4090's.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "cuda/kernels/one_pass.h"

namespace ringscope::cuda {
namespace {

// In clocks: of a block's visit, of handing its dQ over to one of those who add it, and of adding it to
// memory.
struct Costs {
  double visit, hand_over, add;
  int adders = 1;
};
constexpr Costs kCosts11 = {4050, 1450, 3000, 2};
// Whoever computes waits for the turn, adds, and passes the turn at most a visit later.
constexpr Costs kCosts09 = {5200, 0, 5200};

// Return the share of the time in which `blocks` blocks compute, with or without turns.
template <int kQueries = 64>
double utilisation(int rows, int heads, int heads_kv, bool causal, bool in_turn,
                   const Costs& costs = kCosts11, int blocks = 132) {
  std::vector<RowInterval> allowed_queries;
  for (int key = 0; key < rows; ++key) allowed_queries.push_back({causal ? key : 0, rows});
  BackwardStep step;
  step.shape = {1, heads, heads_kv, rows, rows, 128};
  step.allowed_queries = allowed_queries.data();

  const int tiles = tiles_for(rows, kQueries);
  std::vector<int> turns;         // [heads, tiles]: the key tile that may add next
  std::vector<double> passed_at;  // likewise: when its turn came
  for (int i = 0; i < heads * tiles; ++i) turns.push_back(first_turn(step, i % tiles * kQueries));
  passed_at.resize(turns.size());

  std::priority_queue<double, std::vector<double>, std::greater<>> free_blocks;
  for (int i = 0; i < blocks; ++i) free_blocks.push(0);
  double computing = 0, end = 0;
  for (unsigned number = 0; number < OnePassItem<kQueries>::items(step.shape); ++number) {
    OnePassItem<kQueries> item;
    item.set(step, number, matrices_at_once(step.shape, static_cast<unsigned>(blocks)));
    double computed = free_blocks.top(), last_added = computed;
    free_blocks.pop();
    // Of each who adds.
    std::vector<double> buffer_free(static_cast<std::size_t>(costs.adders), computed);
    std::vector<double> added = buffer_free;
    std::size_t visit = 0;
    item.for_each_visit(in_turn ? item.last_turn : item.last_tile, [&](int matrix, int tile) {
      const auto at = static_cast<std::size_t>(matrix * tiles + tile);
      const std::size_t adder = visit % added.size();
      double start = added[adder];
      if (in_turn) {
        EXPECT_EQ(turns[at], item.tile) << "the turn of matrix " << matrix << ", tile " << tile;
        start = std::max(start, passed_at[at]);
      }
      if (tile < item.last_tile) {
        computed = std::max(computed + costs.visit, buffer_free[adder]);
        computing += costs.visit;
        start = std::max(start, computed);
        if (costs.hand_over == 0) computed = start;
        buffer_free[adder] = start + costs.hand_over;
        passed_at[at] = last_added = added[adder] = start + costs.add;
        ++visit;
      }
      turns[at] = item.tile + 1;
    });
    free_blocks.push(computed);
    end = std::max({end, computed, last_added});
  }
  return computing / (blocks * end);
}

TEST(DqTurns, CostACausalStepLittle) {
  for (const int heads : {64, 32})
    for (const int rows : {8192, 16384}) {
      EXPECT_GE(utilisation(rows, heads, 8, true, true), 0.97) << rows << " rows, " << heads;
      EXPECT_GE(utilisation(rows, heads, 8, true, false), 0.97) << rows << " rows, " << heads;
    }
  // Without groups of heads, items are so short that the first turns of each are felt.
  EXPECT_GE(utilisation(8192, 16, 16, true, true), 0.95);
  EXPECT_GE(utilisation(16384, 16, 16, true, true), 0.97);
}

TEST(DqTurns, CostAFullStepLittle) {
  for (const int rows : {8192, 16384})
    EXPECT_GE(utilisation(rows, 64, 8, false, true), 0.9) << rows;
}

TEST(DqTurns, CostBlocksLittleThatWaitThemselves) {
  for (const bool causal : {true, false})
    for (const int rows : {8192, 16384})
      EXPECT_GE(utilisation<32>(rows, 32, 8, causal, true, kCosts09, 128), 0.94)
          << rows << (causal ? " causal" : " full");
}

// Keys that no query meets stand between others, and the last tiles are cut off. Every turn comes:
// what a key tile waits for, one before it has passed.
TEST(DqTurns, ComeWhereKeysHaveGaps) {
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
    step.allowed_queries = allowed_queries.data();
    const int tiles = tiles_for(kRows, kQueries);
    std::vector<int> turns;
    for (int i = 0; i < 8 * tiles; ++i) turns.push_back(first_turn(step, i % tiles * kQueries));
    for (unsigned number = 0; number < OnePassItem<kQueries>::items(step.shape); ++number) {
      OnePassItem<kQueries> item;
      item.set(step, number, 3);
      int visits = 0;
      item.for_each_visit(item.last_tile, [&](int matrix, int tile) {
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

}  // namespace
}  // namespace ringscope::cuda
