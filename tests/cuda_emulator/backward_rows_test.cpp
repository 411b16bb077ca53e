// What a block of the backward owns and who visits it, against brute force: all tables of intervals
// of a few rows, seen from both sides.
#include "cuda/kernels/backward_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "cuda/kernels/row_kernels.h"

namespace ringscope::cuda {
namespace {

// Calls f with every table of `rows` intervals within [0, columns] whose ends never decrease; empty
// intervals included.
void for_each_table(int rows, int columns,
                    const std::function<void(const std::vector<RowInterval>&)>& f) {
  std::vector<RowInterval> table;
  const std::function<void(RowInterval)> extend = [&](RowInterval least) {
    if (static_cast<int>(table.size()) == rows) return f(table);
    for (int first = least.first; first <= columns; ++first)
      for (int last = std::max(least.last, first); last <= columns; ++last) {
        table.push_back({first, last});
        extend(table.back());
        table.pop_back();
      }
  };
  extend({0, 0});
}

bool meet(const std::vector<RowInterval>& table, int row, int column) {
  return table[row].first <= column && column < table[row].last;
}

// Every pair lies in a visit, and a visit that counts as unmasked holds nothing else.
void expect_right(const std::vector<RowInterval>& table, int columns) {
  const int rows = static_cast<int>(table.size());
  for (int tile_rows = 1; tile_rows <= rows + 1; ++tile_rows)
    for (int visitor_rows = 1; visitor_rows <= columns + 1; ++visitor_rows)
      for (int tile = 0; tile < tiles_for(rows, tile_rows); ++tile) {
        const RowTile own = RowTile::at(tile, tile_rows, rows, table.data());
        ASSERT_EQ(own.first, tile * tile_rows);
        ASSERT_EQ(own.rows, std::min(tile_rows, rows - own.first));
        ASSERT_GE(own.first_visitor(visitor_rows), 0);
        ASSERT_LE(own.last_visitor(visitor_rows), tiles_for(columns, visitor_rows));
        for (int visitor = 0; visitor < tiles_for(columns, visitor_rows); ++visitor) {
          const int begin = visitor * visitor_rows, end = begin + visitor_rows;
          bool some = false, all = end <= columns;
          for (int row = own.first; row < own.first + own.rows; ++row)
            for (int column = begin; column < std::min(end, columns); ++column) {
              some |= meet(table, row, column);
              all &= meet(table, row, column);
              if (meet(table, row, column)) {
                ASSERT_GE(column, own.needed.first);
                ASSERT_LT(column, own.needed.last);
              }
            }
          const bool visits = own.first_visitor(visitor_rows) <= visitor &&
                              visitor < own.last_visitor(visitor_rows);
          ASSERT_TRUE(visits || !some);
          ASSERT_EQ(own.is_full(begin, end), all);
        }
      }
}

TEST(BackwardRows, TilesOfBothOwnersAreRight) {
  constexpr int kRows = 4, kColumns = 5;
  int tables = 0;
  for_each_table(kRows, kColumns, [&](const std::vector<RowInterval>& allowed_keys) {
    if (testing::Test::HasFatalFailure()) return;
    expect_right(allowed_keys, kColumns);
    std::vector<RowInterval> allowed_queries;
    for (int key = 0; key < kColumns; ++key)
      allowed_queries.push_back(allowed_queries_of(allowed_keys.data(), kRows, key));
    for (int row = 0; row < kRows; ++row)
      for (int key = 0; key < kColumns; ++key)
        ASSERT_EQ(meet(allowed_keys, row, key), meet(allowed_queries, key, row));
    expect_right(allowed_queries, kRows);
    ++tables;
  });
  EXPECT_GT(tables, 1000);
}

}  // namespace
}  // namespace ringscope::cuda
