// NaN and infinities: those of the inputs are told and computed with, those that come of finite
// inputs are told, and neither counts as verified.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/app/program.h"

namespace ringscope {
namespace {

class NonFiniteTest : public ProgramTest {
 protected:
  void write_good_files() const {
    for (const char* name : {"q.npy", "k.npy", "v.npy"})
      write_tensor(name, {1, 2, 5, 3}, [](Index i) { return 0.1 * static_cast<double>(i % 7); });
  }
};

// Scores that overflow f32 to NaN, where f64 has an answer: `error > tolerance` would let that pass.
TEST_F(NonFiniteTest, NanWhereTheReferenceIsFiniteIsNotVerified) {
  write_tensor("q.npy", {1, 2, 5, 3}, [](Index i) { return i % 3 == 0 ? 1e20 : 0.0; });
  write_tensor("k.npy", {1, 2, 5, 3}, [](Index i) { return i % 3 == 0 ? 1e20 : 0.0; });
  write_tensor("v.npy", {1, 2, 5, 3}, [](Index i) { return 0.1 * static_cast<double>(i % 7); });
  const ProgramResult result = run("run --q q.npy --k k.npy --v v.npy --out o.npy --verify");
  EXPECT_EQ(result.status, 1) << result.err;
  for (const float x : read_values("o.npy", 30)) EXPECT_TRUE(std::isnan(x));
}

// NaN and infinite values are reported and computed with.
TEST_F(NonFiniteTest, NonFiniteValuesArePassedOn) {
  write_good_files();
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  // Key 0 of head 0 is NaN, which no query may look past; the value of key 4 is infinite, seen by
  // query 4 only.
  write_tensor("k.npy", {1, 2, 5, 3}, [&](Index i) { return i == 0 ? nan : 0.1f; });
  write_tensor("v.npy", {1, 2, 5, 3}, [&](Index i) { return i == 27 || i == 28 ? inf : 0.1f; });
  const ProgramResult result =
      run("run --q q.npy --k k.npy --v v.npy --out o.npy --mask causal --verify --world-size 3");
  EXPECT_EQ(result.status, 0) << result.err;
  expect_has(result.err, {"--k: 1 NaN and 0 infinite"});
  expect_has(result.err, {"--v: 0 NaN and 2 infinite"});
  const std::vector<float> out = read_values("o.npy", 30);
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
  for (int i = 15; i < 27; ++i) EXPECT_TRUE(std::isfinite(out[i])) << i;
  EXPECT_EQ(out[27], inf);
  EXPECT_EQ(out[28], inf);
  EXPECT_TRUE(std::isfinite(out[29]));
}

// Finite values that the file's f64 or f32 holds but the run's dtype does not.
TEST_F(NonFiniteTest, ValuesTooLargeArePassedOnAsInfinite) {
  write_good_files();
  std::vector<double> values(30, 0.5);
  values[3] = 1e300;
  values[4] = std::numeric_limits<double>::infinity();
  values[5] = 70000;  // too large for f16
  write_text("v.npy", npy_header({1, 2, 5, 3}, true) +
                          std::string(reinterpret_cast<const char*>(values.data()), 240));
  const Strings arguments = "run --q q.npy --k k.npy --v v.npy --dtype";
  const std::string infinite = "ringscope: --v: 0 NaN and 1 infinite values in it, passed on\n";
  for (const auto& [dtype, too_large] :
       {std::pair{"f32", "1 value"}, {"bf16", "1 value"}, {"f16", "2 values"}}) {
    const ProgramResult result = run(arguments + dtype);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err, infinite + "ringscope: --v: " + too_large + " too large for " + dtype +
                              ", passed on as infinite\n");
  }
}

// NaN in both is no comparison: where there is nothing else, nothing is verified.
TEST_F(NonFiniteTest, NothingButNaNDoesNotVerify) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // First every query, then those of head 0 only.
  for (const Index nans : {16, 8}) {
    write_tensor("q.npy", {1, 2, 4, 2}, [&](Index i) { return i < nans ? nan : 1.0f; });
    write_tensor("k.npy", {1, 2, 4, 2}, [](Index i) { return 0.25 * static_cast<double>(i % 3); });
    const Strings arguments = "run --q q.npy --k k.npy --v k.npy --verify";
    const bool nothing = nans == 16;
    const ProgramResult table = run(arguments);
    EXPECT_EQ(table.status, nothing ? 1 : 0);
    EXPECT_EQ(table.err.find("out: nothing to compare, every value of the reference is NaN or "
                             "infinite") != std::string::npos,
              nothing)
        << table.err;
    EXPECT_EQ(table.out.find("WRONG") != std::string::npos, nothing) << table.out;
    expect_has(table.out, {", " + std::to_string(nans) + " NaN or infinite"});

    const rapidjson::Document json = json_of(run(arguments + "--json").out);
    EXPECT_EQ(json["verify"]["pass"].GetBool(), !nothing);
    EXPECT_EQ(json["verify"]["out"]["pass"].GetBool(), !nothing);
    EXPECT_EQ(json["verify"]["out"]["non_finite"].GetInt(), nans);
    EXPECT_EQ(json["verify"]["lse"]["non_finite"].GetInt(), nans / 2);
  }
}

TEST_F(NonFiniteTest, ScoresThatOverflowAreTold) {
  const ProgramResult result =
      run("run --random --seqlen 4 --heads 1 --head-dim 8 --scale 1e38 --lse lse.npy --out o.npy");
  EXPECT_EQ(result.status, 0);
  const auto expect_told = [&](const std::string& name, const std::vector<float>& values) {
    const auto count =
        std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    ASSERT_GT(count, 0) << name;
    const std::string line = "ringscope: " + name + ": " + std::to_string(count) + " of " +
                             std::to_string(values.size()) +
                             " values are NaN or infinite: scores beyond what f32 can hold\n";
    EXPECT_NE(result.err.find(line), std::string::npos) << result.err;
  };
  expect_told("out", read_values("o.npy", 32));
  expect_told("lse", read_values("lse.npy", 4));
}

}  // namespace
}  // namespace ringscope
