#include "core/attention/tile_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ringscope {
namespace {

TEST(VectorExp, IsAccurateOverItsRange) {
  for (float x = -87.0f; x <= 80.0f; x += 0.00721f) {
    float lanes[kVectorWidth];
    store(lanes, exp_of(broadcast(x)));
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_LE(std::abs(lanes[0] - exact) / exact, 1.2e-7) << x;
  }
}

TEST(VectorExp, IsExactWhereSoftmaxNeedsIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  float lanes[kVectorWidth];
  store(lanes, exp_of(Vector{}));
  EXPECT_EQ(lanes[0], 1.0f);
  store(lanes, exp_of(broadcast(-infinity)));
  EXPECT_EQ(lanes[0], 0.0f);
  store(lanes, exp_of(broadcast(-1e30f)));
  EXPECT_EQ(lanes[0], 0.0f);
  store(lanes, exp_of(broadcast(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(lanes[0]));
}

TEST(Vector, LaneReductions) {
  float lanes[kVectorWidth];
  float sum = 0;
  for (int i = 0; i < kVectorWidth; ++i)
    sum += lanes[i] = static_cast<float>((7 * i) % kVectorWidth);
  EXPECT_EQ(sum_of_lanes(load(lanes)), sum);
  EXPECT_EQ(max_of_lanes(load(lanes)), static_cast<float>(kVectorWidth - 1));
}

// Integer values, so that every order of summation gives the same bits.
TEST(TileProduct, EqualsThePlainSumForEverySizeAndStride) {
  std::mt19937 engine(7);
  std::uniform_int_distribution<int> value(-4, 4);
  constexpr Index kMaxInner = 21;
  for (Index rows = 1; rows <= 2 * kMicroRows + 1; ++rows)
    for (Index columns : {Index{1}, Index{kVectorWidth - 1}, Index{kVectorWidth},
                          Index{kVectorWidth + 3}, Index{kMicroVectors * kVectorWidth},
                          Index{2 * kMicroVectors * kVectorWidth + kVectorWidth + 5}})
      for (Index inner : {Index{0}, Index{1}, kMaxInner})
        for (bool transposed : {false, true}) {
          const Index b_stride = round_up(columns, kVectorWidth), c_stride = columns + 2;
          std::vector<float> a(static_cast<std::size_t>(rows * kMaxInner));
          std::vector<float> b(static_cast<std::size_t>(kMaxInner * b_stride));
          for (float& x : a) x = static_cast<float>(value(engine));
          for (float& x : b) x = static_cast<float>(value(engine));
          const LeftTile left{a.data(), transposed ? 1 : kMaxInner, transposed ? rows : 1};
          const float nan = std::numeric_limits<float>::quiet_NaN();
          std::vector<float> over(static_cast<std::size_t>(rows * c_stride), nan);
          std::vector<float> added(static_cast<std::size_t>(rows * c_stride), 3.0f);
          tile_product<Store::overwrite>(left, b.data(), b_stride, over.data(), c_stride, rows,
                                         columns, inner);
          tile_product<Store::accumulate>(left, b.data(), b_stride, added.data(), c_stride, rows,
                                          columns, inner);
          for (Index i = 0; i < rows; ++i)
            for (Index j = 0; j < c_stride; ++j) {
              const auto at = static_cast<std::size_t>(i * c_stride + j);
              if (j >= columns) {  // beyond the tile: untouched
                EXPECT_TRUE(std::isnan(over[at]));
                EXPECT_EQ(added[at], 3.0f);
                continue;
              }
              float sum = 0;
              for (Index k = 0; k < inner; ++k)
                sum += left.data[i * left.row_stride + k * left.inner_stride] *
                       b[static_cast<std::size_t>(k * b_stride + j)];
              ASSERT_EQ(over[at], sum) << rows << "x" << columns << "x" << inner;
              ASSERT_EQ(added[at], sum + 3.0f) << rows << "x" << columns << "x" << inner;
            }
        }
}

// 32,768 equal values. Tile by tile the rounding errors of (values in a tile + tiles) additions can
// pile up, 2^-24 of the sum each; added one by one, those of all values.
TEST(TileProduct, LongSumsKeepTheirDigits) {
  constexpr Index kTile = 256, kTiles = 128;
  const std::vector<float> ones(kTile, 1.0f), tenths(kTile * kVectorWidth, 0.1f);
  float one_by_one = 0, tiled = 0;
  for (Index i = 0; i < kTile * kTiles; ++i) one_by_one += 0.1f;
  for (Index tile = 0; tile < kTiles; ++tile)
    tile_product<Store::accumulate>({ones.data(), kTile, 1}, tenths.data(), kVectorWidth, &tiled, 1,
                                    1, 1, kTile);
  const double exact = static_cast<double>(0.1f) * kTile * kTiles;
  const double bound = (kTile + kTiles) * 0x1p-24;
  EXPECT_GT(std::abs(one_by_one - exact) / exact, bound);  // the trap is real
  EXPECT_LE(std::abs(tiled - exact) / exact, bound);
}

}  // namespace
}  // namespace ringscope
