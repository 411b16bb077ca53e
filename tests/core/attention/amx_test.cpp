// The operands and products of AMX. Attention with them is tested as every other (blockwise_test.cpp).
#include "core/attention/amx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/attention/tiles.h"

namespace ringscope {
namespace {

constexpr Index kMostRows = 64, kMostWidth = 256;

class Amx : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_amx()) GTEST_SKIP() << "no AMX here";
  }
  static std::vector<float> scratch() { return std::vector<float>(kMostRows * kMostWidth, NAN); }
};

// A row-major matrix, beyond which lies what no product may read.
struct Matrix {
  Index width;
  std::vector<bf16> values;

  Matrix(Index rows, Index columns, std::mt19937& engine) : width(columns) {
    for (Index i = 0; i < rows * width; ++i)
      values.push_back(bf16::from_float(static_cast<float>(static_cast<int>(engine() % 9) - 4)));
    values.insert(values.end(), 64, bf16::from_float(NAN));
  }
  float at(Index row, Index column) const { return values[row * width + column].to_float(); }
};

// Of integers, so that every order of summation gives the same bits.
TEST_F(Amx, ProductsOfStoredValuesEqualThePlainSum) {
  std::mt19937 engine(8);
  for (const Index rows : {1, 16, 17, 48})
    for (const Index columns : {1, 16, 33, 64})
      for (const Index inner : {1, 31, 32, 33, 64}) {
        SCOPED_TRACE(testing::Message() << rows << "x" << columns << "x" << inner);
        const Matrix a(rows, inner, engine), b(columns, inner, engine);
        std::vector<float> left = scratch(), right = scratch(), c(kMostRows * kMostWidth, 2);
        const AmxRegisters registers(true);
        amx_product(rows_as_left(a.values.data(), rows, inner, left.data()),
                    columns_as_right(b.values.data(), columns, inner, right.data()),
                    Store::accumulate, c.data(), kMostWidth, rows, columns, inner);
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < columns; ++j) {
            float sum = 2;
            for (Index k = 0; k < inner; ++k) sum += a.at(i, k) * b.at(j, k);
            ASSERT_EQ(c[i * kMostWidth + j], sum) << i << ", " << j;
          }
      }
}

// Weights of all sizes keep all digits, on the left, beside rows, and on the right, split in place.
TEST_F(Amx, ProductsOfWeightsKeepAllDigits) {
  std::mt19937 engine(9);
  std::uniform_real_distribution<float> exponent(-60, 0);
  for (const Index rows : {2, 16, 34, 48})
    for (const Index keys : {32, 64, 256})
      for (const Index width : {16, 17, 64}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << keys << " keys, width " << width);
        std::vector<float> weights(2 * kMostRows * kMostWidth, 0), spare = scratch();
        for (Index i = 0; i < rows * kMostWidth; ++i) weights[i] = std::exp2(exponent(engine));
        const Matrix v(keys, width, engine), dout(rows, width, engine);
        std::vector<float> split = weights, pairs = weights;
        const Index step = round_up(width, kAmxRows);
        std::vector<float> by_row(kMostRows * step, NAN), by_key(step * kMostWidth, NAN);
        for (Index i = rows - 1; i >= 0; --i)
          split_row(&split[i * kMostWidth], {0, keys}, 2, &split[i * words_of_weights(kMostWidth)]);
        for (Index i = rows - 2; i >= 0; i -= 2)
          split_rows(&pairs[i * kMostWidth], kMostWidth, {0, keys},
                     &pairs[words_of_weights(i) * kMostWidth]);
        const AmxRegisters registers(true);
        amx_product(weights_as_left(split.data(), kMostWidth),
                    rows_as_right(v.values.data(), keys, width, spare.data()), Store::overwrite,
                    by_row.data(), step, rows, width, keys);
        amx_product(columns_as_left(dout.values.data(), rows, width, spare.data()),
                    weights_as_right(pairs.data(), kMostWidth), Store::overwrite, by_key.data(),
                    kMostWidth, width, keys, rows);
        const auto compare = [&](float found, Index terms, const auto& term) {
          double sum = 0, sizes = 0;
          for (Index k = 0; k < terms; ++k) sum += term(k), sizes += std::abs(term(k));
          ASSERT_LE(std::abs(found - sum), 0x1p-20 * sizes);
        };
        for (Index x = 0; x < width; ++x) {
          for (Index i = 0; i < rows; ++i)
            compare(by_row[i * step + x], keys,
                    [&](Index j) { return 2.0 * weights[i * kMostWidth + j] * v.at(j, x); });
          for (Index j = 0; j < keys; ++j)
            compare(by_key[x * kMostWidth + j], rows,
                    [&](Index i) { return 1.0 * weights[i * kMostWidth + j] * dout.at(i, x); });
        }
      }
}

TEST_F(Amx, OnlyOrdinaryValuesAreMultiplied) {
  std::vector<bf16> values(100, bf16::from_float(-1));
  for (const auto& [value, ordinary] : {std::pair{0.0f, true},
                                        {-0.0f, true},
                                        {0x1p-48f, true},
                                        {-0x1.fep-49f, false},
                                        {-0x1.fep19f, true},
                                        {0x1p20f, false},
                                        {1e-40f, false},
                                        {INFINITY, false},
                                        {-NAN, false}}) {
    values[77] = bf16::from_float(value);
    EXPECT_EQ(std::isfinite(largest_ordinary(values.data(), 100)), ordinary) << value;
  }
}

// What the shape, the scale or one odd value decides.
TEST_F(Amx, IsUsedWhereNothingIsLost) {
  std::vector<bf16> q(4 * 64, bf16::from_float(1)), dout = q;
  std::vector<float> delta(4, 1);
  std::vector<double> row_sum(4, 1);
  const QueryBlock block{q.data(), dout.data(), 4};
  const BackwardState state{.row_sum = row_sum.data(), .delta = delta.data()};
  AttentionParams params{{1, 1, 1, 4, 64}, DType::bf16, 0.125};
  EXPECT_EQ(amx_limit_of_keys(params, block), 512);  // 512 * 1 * 64 * 0.125 = 2^12
  EXPECT_TRUE(may_use_amx(q.data(), 256, q.data(), 256, 1.5f));
  EXPECT_FALSE(may_use_amx(q.data(), 256, q.data(), 256, 1));
  EXPECT_TRUE(may_use_amx(params, block, state));
  row_sum[2] = 0.25;  // a row that is lowered
  EXPECT_FALSE(may_use_amx(params, block, state));
  row_sum[2] = 1;
  delta[3] = NAN;
  EXPECT_FALSE(may_use_amx(params, block, state));
  delta[3] = 0;
  dout[255] = bf16::from_float(1e-30f);
  EXPECT_FALSE(may_use_amx(params, block, state));
  EXPECT_FALSE(may_use_amx(q.data(), 256, dout.data(), 256, 512));
  q[255] = bf16::from_float(1e30f);
  EXPECT_EQ(amx_limit_of_keys(params, block), 0);
  q[255] = dout[255] = bf16{};
  EXPECT_TRUE(may_use_amx(params, block, state));
  for (const double scale : {1e30, 1e-30, std::nan("")}) {
    params.softmax_scale = scale;
    EXPECT_EQ(amx_limit_of_keys(params, block), 0) << scale;
  }
  params.softmax_scale = -1;
  EXPECT_EQ(amx_limit_of_keys(params, block), 64);
  for (const DType dtype : {DType::f32, DType::f16}) {
    params.dtype = dtype;
    EXPECT_EQ(amx_limit_of_keys(params, block), 0);
  }
}

}  // namespace
}  // namespace ringscope
