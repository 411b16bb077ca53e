// The closed forms by which the tensor-core kernels find values in shared memory and registers,
// exhaustively, against definitions written down another way.
#include "cuda/kernels/mma_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>
#include <vector>

namespace ringscope::cuda {
namespace {

constexpr int kRows = 128;

template <class Width>
class Swizzle : public testing::Test {};
template <int Columns_>
struct Width {
  static constexpr int Columns = Columns_;
};
using Widths = testing::Types<Width<64>, Width<128>, Width<256>>;
TYPED_TEST_SUITE(Swizzle, Widths);

TYPED_TEST(Swizzle, GivesEveryValueAPlaceOfItsOwnInItsRow) {
  constexpr int kColumns = TypeParam::Columns;
  std::vector<int> values_at(kRows * kColumns, 0);
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) {
      const int place = SwizzledRows<kColumns>::value_place(row, column);
      ASSERT_GE(place, row * kColumns);
      ASSERT_LT(place, (row + 1) * kColumns);
      EXPECT_EQ(++values_at[place], 1);
      // The values of a chunk stay together.
      EXPECT_EQ(place % kChunkValues, column % kChunkValues);
      EXPECT_EQ(place / kChunkValues,
                SwizzledRows<kColumns>::chunk_place(row, column / kChunkValues));
    }
}

// A chunk of 16 bytes fills one of 8 groups of four banks.
int bank_group(int chunk_place) { return chunk_place % 8; }

// How many different bank groups chunk `chunk` of rows [row, row + 8) lies in.
template <class Place>
int groups_of_column(int row, int chunk, Place place) {
  std::set<int> groups;
  for (int i = 0; i < 8; ++i) groups.insert(bank_group(place(row + i, chunk)));
  return static_cast<int>(groups.size());
}

TYPED_TEST(Swizzle, FreesColumnsOfBankConflicts) {
  using Place = SwizzledRows<TypeParam::Columns>;
  // From any row on, not only where ldmatrix begins.
  for (int row = 0; row + 8 <= kRows; ++row)
    for (int chunk = 0; chunk < Place::kChunks; ++chunk) {
      EXPECT_EQ(groups_of_column(row, chunk, Place::chunk_place), 8);
      const auto unswizzled = [](int r, int c) { return r * Place::kChunks + c; };
      EXPECT_EQ(groups_of_column(row, chunk, unswizzled), 1);
    }
}

// cp.async writes 16 bytes a lane, eight lanes at a time: eight neighbouring chunks of one row.
TYPED_TEST(Swizzle, KeepsWritesAlongRowsFreeOfBankConflicts) {
  using Place = SwizzledRows<TypeParam::Columns>;
  for (int row = 0; row < kRows; ++row)
    for (int chunk = 0; chunk < Place::kChunks; chunk += 8) {
      std::set<int> groups;
      for (int i = 0; i < 8; ++i) groups.insert(bank_group(Place::chunk_place(row, chunk + i)));
      EXPECT_EQ(groups.size(), 8u);
    }
}

TYPED_TEST(Swizzle, SquarePlaceIsThePlaceOfTheValue) {
  constexpr int kColumns = TypeParam::Columns;
  for (const auto order : {mma::down_then_right, mma::right_then_down})
    for (int lane = 0; lane < 32; ++lane)
      for (int row = 0; row < kRows; row += 16)
        for (int column = 0; column < kColumns; column += 16) {
          const mma::SquareRow mine = order(lane);
          EXPECT_EQ(mma::square_place<kColumns>(mine, row, column),
                    SwizzledRows<kColumns>::value_place(row + mine.row,
                                                        column + mine.half * kChunkValues));
        }
}

using Position = std::pair<int, int>;  // row, column

TEST(MmaLayout, FragmentsHoldEveryValueOnce) {
  std::set<Position> a, b, c;
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 4; ++reg)
      for (int half = 0; half < 2; ++half)
        a.insert({mma::a_row(lane, reg), mma::a_k(lane, reg) + half});
    for (int reg = 0; reg < 2; ++reg)
      for (int half = 0; half < 2; ++half)
        b.insert({mma::b_k(lane, reg) + half, mma::b_column(lane)});
    for (int i = 0; i < 4; ++i) c.insert({mma::c_row(lane, i), mma::c_column(lane, i)});
  }
  const auto whole = [](int rows, int columns) {
    std::set<Position> all;
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) all.insert({row, column});
    return all;
  };
  EXPECT_EQ(a, whole(kMmaRows, kMmaDepth));
  EXPECT_EQ(b, whole(kMmaDepth, kMmaColumns));
  EXPECT_EQ(c, whole(kMmaRows, kMmaColumns));
}

// Two accumulators side by side, packed in pairs, are an A over their 16 columns.
TEST(MmaLayout, AccumulatorsHaveTheLayoutOfA) {
  for (int lane = 0; lane < 32; ++lane)
    for (int reg = 0; reg < 4; ++reg)
      for (int half = 0; half < 2; ++half) {
        const int i = 2 * (reg % 2) + half;  // of the left (reg < 2) or right accumulator
        EXPECT_EQ(mma::c_row(lane, i), mma::a_row(lane, reg));
        EXPECT_EQ(mma::c_column(lane, i) + 8 * (reg / 2), mma::a_k(lane, reg) + half);
      }
}

// What ldmatrix.x4 puts into half `half` of register `reg`, as (row, column) of the 16 x 16 square:
// value (lane / 4, 2 (lane mod 4) + half) of the 8 x 8 square number `reg`, or its transpose, where
// lanes 8 reg .. 8 reg + 7 name the rows.
Position fetched(mma::SquareRow (*order)(int), bool transposed, int lane, int reg, int half) {
  const int across = lane / 4, along = 2 * (lane % 4) + half;
  const mma::SquareRow row = order(8 * reg + (transposed ? along : across));
  return {row.row, 8 * row.half + (transposed ? across : along)};
}

TEST(MmaLayout, LdmatrixFetchesFragments) {
  for (int lane = 0; lane < 32; ++lane)
    for (int reg = 0; reg < 4; ++reg)
      for (int half = 0; half < 2; ++half) {
        const int row = mma::a_row(lane, reg), k = mma::a_k(lane, reg) + half;
        EXPECT_EQ(fetched(mma::down_then_right, false, lane, reg, half), Position(row, k));
        EXPECT_EQ(fetched(mma::right_then_down, true, lane, reg, half), Position(k, row));
        // Registers 0 and 1 are B of the first 8 columns, 2 and 3 of the others.
        const int column = mma::b_column(lane) + 8 * (reg / 2),
                  deep = mma::b_k(lane, reg % 2) + half;
        EXPECT_EQ(fetched(mma::right_then_down, false, lane, reg, half), Position(column, deep));
        EXPECT_EQ(fetched(mma::down_then_right, true, lane, reg, half), Position(deep, column));
      }
}

}  // namespace
}  // namespace ringscope::cuda
