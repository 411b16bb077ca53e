// Softmax in pieces: whatever way the keys are cut and the pieces put together, the result is that
// of all keys at once. Names with a C-number say which claim of the sources they check.
#include "core/attention/online_softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/base/random.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope {
namespace {

constexpr Index kDim = 3;
constexpr double kNegative = kMinusInfinity<double>;

// One query row over some keys: their scores, and V [scores, kDim].
template <class T>
struct Keys {
  std::vector<T> scores, values;

  Keys part(std::size_t begin, std::size_t end) const {
    return {{scores.begin() + begin, scores.begin() + end},
            {values.begin() + begin * kDim, values.begin() + end * kDim}};
  }
};

template <class T>
Keys<T> random_keys(std::size_t count, std::uint64_t seed, double spread = 3) {
  Keys<T> keys;
  for (std::size_t j = 0; j < count; ++j)
    keys.scores.push_back(static_cast<T>(spread * normal(seed, RandomTensor::k, j)));
  for (std::size_t j = 0; j < count * kDim; ++j)
    keys.values.push_back(static_cast<T>(normal(seed, RandomTensor::v, j)));
  return keys;
}

// A partial result: (m, l, out_accum).
template <class T>
struct Partial {
  RowState<T> row;
  std::vector<T> out_accum = std::vector<T>(kDim, T(0));

  void carry(const Keys<T>& keys) { carry_on<T>(row, out_accum, keys.scores, keys.values.data()); }
  void add(const Partial& other) { merge<T>(row, out_accum, other.row, other.out_accum); }
  T lse() const { return lse_of(row); }
  std::vector<T> out() const {
    std::vector<T> result = out_accum;
    if (row.row_sum != 0)
      for (T& x : result) x /= row.row_sum;
    return result;
  }
};

template <class T>
Partial<T> partial_of(const Keys<T>& keys) {
  Partial<T> result;
  result.carry(keys);
  return result;
}

// lse and out by their definitions, in the widest type.
struct Expected {
  long double lse;
  std::vector<long double> out;
};
template <class T>
Expected by_definition(const Keys<T>& keys) {
  long double sum = 0;
  std::vector<long double> out(kDim, 0);
  for (std::size_t j = 0; j < keys.scores.size(); ++j) {
    const long double p = std::exp(static_cast<long double>(keys.scores[j]));
    sum += p;
    for (Index x = 0; x < kDim; ++x) out[x] += p * keys.values[j * kDim + x];
  }
  for (long double& x : out) x /= sum;
  return {std::log(sum), out};
}

TEST(SafeSoftmax, FollowsTheDefinition) {
  const std::vector<double> scores = {0.5, -2, 3, 3, -1};
  double sum = 0;
  for (const double s : scores) sum += std::exp(s);
  std::vector<double> weights(scores.size());
  safe_softmax<double>(scores, weights);
  for (std::size_t j = 0; j < scores.size(); ++j)
    EXPECT_NEAR(weights[j], std::exp(scores[j]) / sum, 1e-15);
}

TEST(SafeSoftmax, WithoutAnyAllowedScoreWeighsNothing) {
  const std::vector<double> scores(3, kNegative);
  std::vector<double> weights(3, 7);
  safe_softmax<double>(scores, weights);
  EXPECT_EQ(weights, std::vector<double>(3, 0));
}

// C04 (S0): however the keys are cut, the carried form is exact.
TEST(C04_Carried, CutsDoNotShow) {
  const Keys<double> keys = random_keys<double>(24, 1);
  const Expected expected = by_definition(keys);
  for (std::size_t first = 0; first <= 24; ++first)
    for (std::size_t second = first; second <= 24; ++second) {
      Partial<double> result;
      result.carry(keys.part(0, first));
      result.carry(keys.part(first, second));
      result.carry(keys.part(second, 24));
      ASSERT_LE(max_abs_error(result.out(), expected.out), 1e-14) << first << ", " << second;
      ASSERT_NEAR(result.lse(), static_cast<double>(expected.lse), 1e-14)
          << first << ", " << second;
    }
}

// C05 and C06 (S1, S2): both merges are exact, commutative and associative up to rounding. Keys are cut
// anywhere, into blocks that may be empty or far apart, and any two of what is left are merged until
// one is left.
TEST(C05_C06_Merges, GiveTheSameInAnyOrderOfAnyBlocks) {
  std::mt19937 random(5);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t count = 1 + below(40);
    const auto keys =
        random_keys<double>(count, 2 + static_cast<std::uint64_t>(trial), trial % 3 == 0 ? 100 : 3);
    const Expected expected = by_definition(keys);
    std::vector<std::size_t> cuts = {0, count};
    for (std::size_t cut = below(9); cut > 0; --cut) cuts.push_back(below(count + 1));
    std::sort(cuts.begin(), cuts.end());
    struct ByLse {
      double lse;
      std::vector<double> out;
    };
    std::vector<Partial<double>> parts;
    std::vector<ByLse> by_lse;
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      parts.push_back(partial_of(keys.part(cuts[i - 1], cuts[i])));
      by_lse.push_back({parts.back().lse(), parts.back().out()});
    }
    while (parts.size() > 1) {
      const std::size_t from = below(parts.size());
      const std::size_t to = (from + 1 + below(parts.size() - 1)) % parts.size();
      Partial<double> other_way = parts[from];
      other_way.add(parts[to]);
      parts[to].add(parts[from]);
      EXPECT_LE(max_abs_error(parts[to].out_accum, other_way.out_accum), 1e-13);
      EXPECT_NEAR(parts[to].row.row_sum, other_way.row.row_sum, 1e-13);
      merge_by_lse<double>(by_lse[to].lse, by_lse[to].out, by_lse[from].lse, by_lse[from].out);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(from));
      by_lse.erase(by_lse.begin() + static_cast<std::ptrdiff_t>(from));
    }
    const double rounding = trial % 3 == 0 ? 1e-12 : 1e-14;
    EXPECT_LE(max_abs_error(parts[0].out(), expected.out), rounding);
    EXPECT_NEAR(parts[0].lse(), static_cast<double>(expected.lse), rounding);
    EXPECT_LE(max_abs_error(by_lse[0].out, expected.out), rounding);
    EXPECT_NEAR(by_lse[0].lse, static_cast<double>(expected.lse), rounding);
  }
}

TEST(NoKeys, AreNeutralOnEitherSide) {
  const Keys<double> none{{}, {}}, masked{{kNegative, kNegative}, std::vector<double>(6, 5)};
  const Partial<double> some = partial_of(random_keys<double>(5, 4));
  for (const Keys<double>& empty : {none, masked}) {
    const Partial<double> nothing = partial_of(empty);
    EXPECT_EQ(nothing.lse(), kNegative);
    EXPECT_EQ(nothing.out_accum, std::vector<double>(kDim, 0));
    Partial<double> left = nothing, right = some, carried = some;
    left.add(some);
    right.add(nothing);
    carried.carry(empty);
    for (const Partial<double>& result : {left, right, carried}) {
      EXPECT_EQ(result.out_accum, some.out_accum);
      EXPECT_EQ(result.row.row_sum, some.row.row_sum);
      EXPECT_EQ(result.row.row_max, some.row.row_max);
    }
    double lse = nothing.lse();
    std::vector<double> out = nothing.out();
    merge_by_lse<double>(lse, out, some.lse(), some.out());
    EXPECT_NEAR(lse, some.lse(), 1e-15);
    EXPECT_LE(max_abs_error(out, some.out()), 1e-15);
    merge_by_lse<double>(lse, out, kNegative, std::vector<double>(kDim, 0));
    EXPECT_NEAR(lse, some.lse(), 1e-15);
    EXPECT_LE(max_abs_error(out, some.out()), 1e-15);
  }
}

// C06, C11: where the formulas as S1 and S2 write them form -inf - -inf.
TEST(NoKeys, OnBothSidesAreNoKeysAndNoNan) {
  Partial<double> a, b;
  a.add(b);
  EXPECT_EQ(a.row.row_max, kNegative);
  EXPECT_EQ(a.row.row_sum, 0);
  EXPECT_EQ(a.lse(), kNegative);
  EXPECT_EQ(a.out_accum, std::vector<double>(kDim, 0));
  double lse = kNegative;
  std::vector<double> out(kDim, 0);
  merge_by_lse<double>(lse, out, kNegative, std::vector<double>(kDim, 0));
  EXPECT_EQ(lse, kNegative);
  EXPECT_EQ(out, std::vector<double>(kDim, 0));
}

// Neither order of a huge and a tiny part overflows, in f32, in any of the three forms.
TEST(Overflow, OfNeitherMergeAtFarApartParts) {
  const std::vector<float> one(kDim, 1), two(kDim, 2);
  for (const auto& [lse_a, lse_b] : {std::pair{1e4f, -1e4f}, std::pair{-1e4f, 1e4f}}) {
    const std::vector<float>& expected = lse_a > lse_b ? one : two;
    float lse = lse_a;
    std::vector<float> out = one;
    merge_by_lse<float>(lse, out, lse_b, two);
    EXPECT_EQ(lse, 1e4f);
    EXPECT_EQ(out, expected);

    Partial<float> a{{lse_a, 1}, one};
    a.add({{lse_b, 1}, two});
    EXPECT_EQ(a.lse(), 1e4f);
    EXPECT_EQ(a.out(), expected);

    Partial<float> carried{{lse_a, 1}, one};
    carried.carry({{lse_b}, two});
    EXPECT_EQ(carried.lse(), 1e4f);
    EXPECT_EQ(carried.out(), expected);
  }
}

TEST(Exact, EqualKeysGiveTheMeanAndOneHotScoresTheirValue) {
  Keys<float> equal{std::vector<float>(8, 5.5f), {}};
  for (int j = 0; j < 8; ++j) equal.values.insert(equal.values.end(), {float(j), float(-j), 1});
  Partial<float> mean = partial_of(equal.part(0, 3));
  mean.add(partial_of(equal.part(3, 8)));
  EXPECT_EQ(mean.out(), (std::vector<float>{3.5, -3.5, 1}));

  equal.scores[2] = 500;
  Partial<float> one_hot = partial_of(equal.part(0, 3));
  one_hot.carry(equal.part(3, 8));
  EXPECT_EQ(one_hot.out(), (std::vector<float>{2, -2, 1}));
}

// No finite score in sight: a maximum that passes over NaN finds nothing, as if there were no keys.
TEST(Nan, ComesOutWithoutFiniteCompany) {
  const double nan = std::nan("");
  const double value[] = {1.0};
  double out[] = {0.0};
  RowState<double> row;
  carry_on<double>(row, out, std::vector<double>{nan}, value);
  EXPECT_TRUE(std::isnan(lse_of(row)));
  EXPECT_TRUE(std::isnan(out[0]));

  const double infinity = std::numeric_limits<double>::infinity();
  for (const bool nan_first : {false, true}) {
    double lse = nan_first ? nan : -infinity;
    double merged[] = {nan_first ? nan : 0.0};
    const std::vector<double> other = {nan_first ? 0.0 : nan};
    merge_by_lse<double>(lse, merged, nan_first ? -infinity : nan, other);
    EXPECT_TRUE(std::isnan(lse)) << nan_first;
    EXPECT_TRUE(std::isnan(merged[0])) << nan_first;
  }
}

TEST(Nan, ComesOutWhereItWentIn) {
  const double nan = std::nan("");
  for (const std::size_t at : {0, 2, 4}) {
    Keys<double> keys = random_keys<double>(5, 6);
    keys.scores[at] = nan;
    Partial<double> result = partial_of(keys);
    EXPECT_TRUE(std::isnan(result.out()[0])) << "key " << at;
    EXPECT_TRUE(std::isnan(result.lse())) << "key " << at;
    const Partial<double> good = partial_of(random_keys<double>(5, 7));
    Partial<double> merged = good;
    merged.add(result);
    EXPECT_TRUE(std::isnan(merged.out()[0])) << "key " << at;
    double lse = good.lse();
    std::vector<double> out = good.out();
    merge_by_lse<double>(lse, out, nan, std::vector<double>(kDim, nan));
    EXPECT_TRUE(std::isnan(lse));
    EXPECT_TRUE(std::isnan(out[0]));
  }
}

}  // namespace
}  // namespace ringscope
