#include "core/training/matrix_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/base/random.h"

namespace ringscope {
namespace {

std::vector<float> drawn(Index values, std::uint64_t stream) {
  std::vector<float> result(static_cast<std::size_t>(values));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<float>(unit_interval(random_bits(3, stream, i)) - 0.5);
  return result;
}

// Sizes around those at which the product cuts its matrices up.
constexpr Index kSizes[][3] = {{1, 1, 1},    {5, 17, 3},    {96, 64, 256}, {97, 65, 257},
                               {7, 130, 40}, {200, 24, 33}, {3, 300, 520}};

// In a matrix of the same values, stored the other way round.
MatrixView turned(const MatrixView& view, std::vector<float>& memory) {
  memory.resize(static_cast<std::size_t>(view.rows * view.columns));
  for (Index i = 0; i < view.rows; ++i)
    for (Index j = 0; j < view.columns; ++j)
      memory[j * view.rows + i] = view.data[i * view.row_stride + j * view.column_stride];
  return row_major(memory.data(), view.columns, view.rows).transposed();
}

TEST(MatrixProduct, IsTheSumOfProductsWhicheverWayTheFactorsLie) {
  MatrixProduct product;
  for (const auto& [rows, columns, inner] : kSizes) {
    const std::vector<float> left = drawn(rows * inner, 1), right = drawn(inner * columns, 2);
    const MatrixView a = row_major(left.data(), rows, inner);
    const MatrixView b = row_major(right.data(), inner, columns);
    std::vector<float> a_memory, b_memory;
    const MatrixView a_turned = turned(a, a_memory), b_turned = turned(b, b_memory);
    for (const auto& [first, second] : {std::pair{a, b}, {a_turned, b}, {a, b_turned}})
      for (const Store store : {Store::overwrite, Store::accumulate}) {
        std::vector<float> c(static_cast<std::size_t>(rows * columns),
                             store == Store::accumulate ? 2.0f : NAN);
        product(store, first, second, c.data());
        double error = 0;
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < columns; ++j) {
            double sum = store == Store::accumulate ? 2 : 0;
            for (Index k = 0; k < inner; ++k)
              sum += static_cast<double>(left[i * inner + k]) * right[k * columns + j];
            const double off = std::abs(c[i * columns + j] - sum);
            error = off <= error ? error : off;  // a NaN stays
          }
        // Sums of up to 520 products of at most 1/4, that stay below some 10.
        EXPECT_LE(error, 1e-5) << rows << " x " << inner << " x " << columns;
      }
  }
}

// Both factors are rounded, whichever way they lie; their sums are not.
TEST(MatrixProduct, RoundsItsFactorsToBf16) {
  constexpr Index kRows = 100, kInner = 300, kColumns = 20;
  const std::vector<float> a = drawn(kRows * kInner, 1), b = drawn(kInner * kColumns, 2);
  std::vector<float> found(kRows * kColumns), rounded_a = a, rounded_b = b;
  for (std::vector<float>* factor : {&rounded_a, &rounded_b})
    for (float& value : *factor) value = round_to(DType::bf16, value);
  MatrixProduct product, rounding(nullptr, nullptr, 0, DType::bf16);
  const auto multiply = [&](MatrixProduct& by, const std::vector<float>& left,
                            const std::vector<float>& right, bool transposed) {
    const MatrixView l = transposed ? row_major(left.data(), kInner, kRows).transposed()
                                    : row_major(left.data(), kRows, kInner);
    const MatrixView r = transposed ? row_major(right.data(), kColumns, kInner).transposed()
                                    : row_major(right.data(), kInner, kColumns);
    by(Store::overwrite, l, r, found.data());
    return found;
  };
  for (const bool transposed : {false, true}) {
    const std::vector<float> expected = multiply(product, rounded_a, rounded_b, transposed);
    EXPECT_EQ(multiply(rounding, a, b, transposed), expected);
    EXPECT_NE(multiply(product, a, b, transposed), expected);
  }
}

TEST(MatrixProduct, OfNothingIsNothing) {
  MatrixProduct product;
  float c[2] = {5, 5};
  product(Store::accumulate, row_major(nullptr, 1, 0), row_major(nullptr, 0, 2), c);
  EXPECT_EQ(c[0], 5);
  product(Store::overwrite, row_major(nullptr, 1, 0), row_major(nullptr, 0, 2), c);
  EXPECT_EQ(c[0], 0);
  EXPECT_EQ(c[1], 0);
  product(Store::overwrite, row_major(nullptr, 0, 1), row_major(c, 1, 2), nullptr);
}

// Any rows by themselves come out as among the others, to the last bit.
TEST(MatrixProduct, RowsDoNotDependOnTheirNumber) {
  MatrixProduct product;
  for (const auto& [rows, columns, inner] : kSizes) {
    const std::vector<float> left = drawn(rows * inner, 1), right = drawn(inner * columns, 2);
    const MatrixView b = row_major(right.data(), inner, columns);
    std::vector<float> whole(static_cast<std::size_t>(rows * columns)), part(whole.size());
    product(Store::overwrite, row_major(left.data(), rows, inner), b, whole.data());
    for (const Index first : {Index{0}, rows / 3, rows - 1})
      for (const Index end : {first + 1, (first + rows) / 2, rows}) {
        if (end <= first) continue;
        product(Store::overwrite, row_major(left.data() + first * inner, end - first, inner), b,
                part.data());
        EXPECT_EQ(std::memcmp(part.data(), whole.data() + first * columns,
                              sizeof(float) * static_cast<std::size_t>((end - first) * columns)),
                  0)
            << rows << " x " << inner << " x " << columns << ", rows " << first << " to " << end;
      }
  }
}

// So that a long one is neither taken for stuck nor has to be waited for after a failure.
TEST(MatrixProduct, AdvancesItsPulseAndCanBeStopped) {
  WorkPulse pulse;
  MatrixProduct product(&pulse);
  const std::vector<float> left = drawn(300 * 600, 1), right = drawn(600 * 8, 2);
  std::vector<float> c(300 * 8);
  const auto multiply = [&] {
    product(Store::overwrite, row_major(left.data(), 300, 600), row_major(right.data(), 600, 8),
            c.data());
  };
  multiply();
  EXPECT_GE(pulse.progress(), 10u);
  pulse.stop();
  const std::uint64_t before = pulse.progress();
  EXPECT_THROW(multiply(), RunError);
  EXPECT_LE(pulse.progress() - before, 1u);
}

}  // namespace
}  // namespace ringscope
