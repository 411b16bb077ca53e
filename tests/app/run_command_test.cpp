// `ringscope run` and its companions on good input: what is written is right, what is printed is
// complete.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/attention/naive.h"
#include "core/base/random.h"
#include "core/problem/mask.h"
#include "core/threads/faulty_ring.h"
#include "core/tools/check/mistakes.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

class RunCommandTest : public ProgramTest {};

void expect_near(const std::vector<float>& got, const std::vector<double>& expected,
                 double tolerance, const char* name) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - expected[i]), tolerance) << name << " at " << i;
}

TEST_F(RunCommandTest, OutputsAreAttentionOfTheFiles) {
  const AttentionShape shape{2, 4, 2, 37, 5};
  const std::vector<Index> query{2, 4, 37, 5}, kv{2, 2, 37, 5};
  const auto value = [](RandomTensor tensor) {
    return [tensor](Index i) { return static_cast<float>(normal(3, tensor, i)); };
  };
  write_tensor("q.npy", query, value(RandomTensor::q));
  write_tensor("k.npy", kv, value(RandomTensor::k));
  write_tensor("v.npy", kv, value(RandomTensor::v));
  write_tensor("do.npy", query, value(RandomTensor::dout));
  run_well(
      "run --q q.npy --k k.npy --v v.npy --dout do.npy --backward --mask causal+window:20 --scale "
      "0.3 --world-size 3 --partition zigzag --out o.npy --lse lse.npy --dq dq.npy --dk dk.npy "
      "--dv dv.npy");

  const auto doubles = [&](const std::string& name) {
    const std::vector<float> values = read_npy(path(name)).values;
    return std::vector<double>(values.begin(), values.end());
  };
  const std::vector<double> q = doubles("q.npy"), k = doubles("k.npy"), v = doubles("v.npy"),
                            dout = doubles("do.npy");
  const MaskSpec mask = MaskSpec::parse("causal+window:20");
  const NaiveResult<double> oracle = naive_attention<double>(
      shape, mask.for_seqlen(37), 0.3, q.data(), k.data(), v.data(), dout.data());
  const std::pair<const char*, const std::vector<double>*> tensors[] = {{"o.npy", &oracle.out},
                                                                        {"dq.npy", &oracle.dq},
                                                                        {"dk.npy", &oracle.dk},
                                                                        {"dv.npy", &oracle.dv}};
  for (const auto& [name, expected] : tensors) {
    const NpyArray array = read_npy(path(name));
    EXPECT_FALSE(array.was_f64);
    const bool of_queries = name != std::string("dk.npy") && name != std::string("dv.npy");
    EXPECT_EQ(std::vector<Index>(array.shape.begin(), array.shape.end()), of_queries ? query : kv);
    expect_near(array.values, *expected, 1e-5, name);
  }
  expect_has(contents_of(path("lse.npy")).substr(0, 128), {"'shape': (2, 4, 37)"});
  expect_near(read_values("lse.npy", 2 * 4 * 37), oracle.lse, 1e-5, "lse.npy");
}

TEST_F(RunCommandTest, OutputsAreFloat64WhenAllInputsAre) {
  const auto value = [](Index i) { return 0.25 * static_cast<double>(i % 5); };
  const Strings arguments = "run --q q.npy --k k.npy --v v.npy --out o.npy";
  for (const bool v_is_f64 : {true, false}) {
    write_tensor("q.npy", {1, 1, 6, 2}, value, true);
    write_tensor("k.npy", {1, 1, 6, 2}, value, true);
    write_tensor("v.npy", {1, 1, 6, 2}, value, v_is_f64);
    run_well(arguments);
    EXPECT_EQ(read_npy(path("o.npy")).was_f64, v_is_f64);
  }
}

TEST_F(RunCommandTest, RandomInputsAreTheDocumentedOnes) {
  // With one position, the output is V itself.
  run_well(
      "run --random --seed 12345678901234567890 --seqlen 1 --heads 3 --head-dim 4 --world-size 2 "
      "--out o.npy");
  const std::vector<float> out = read_npy(path("o.npy")).values;
  for (Index i = 0; i < 12; ++i)
    EXPECT_EQ(out[i], static_cast<float>(normal(12345678901234567890u, RandomTensor::v, i))) << i;
}

// Scores near 2^28, where neighbouring f32 numbers are 32 apart, with true differences of a few
// units: exact in f64, noise in f32. All outputs are written all the same.
TEST_F(RunCommandTest, VerifyFailsWhenSingleRankIsWrongToo) {
  write_tensor("q.npy", {1, 1, 64, 16}, [](Index) { return 4096.0; });
  write_tensor("k.npy", {1, 1, 64, 16}, [](Index i) { return 4096 + (i * 7 % 5 - 2) * 0x1p-11; });
  write_tensor("v.npy", {1, 1, 64, 16}, [](Index i) { return normal(1, RandomTensor::v, i); });
  const Strings arguments =
      "run --q q.npy --k k.npy --v v.npy --scale 1 --verify --out o.npy --trace t.json";
  const ProgramResult table = run(arguments);
  expect_ended(table, 1, {"out is off by"});
  expect_has(table.err, "tolerance");
  expect_has(table.out, "WRONG");
  EXPECT_EQ(files(), (std::set<std::string>{"q.npy", "k.npy", "v.npy", "o.npy", "t.json"}));

  const ProgramResult result = run(arguments + "--json");
  EXPECT_EQ(result.status, 1);
  const rapidjson::Document json = json_of(result.out);
  EXPECT_FALSE(json["verify"]["pass"].GetBool());
  EXPECT_GT(json["verify"]["out"]["max_abs"].GetDouble(),
            json["verify"]["out"]["tolerance"].GetDouble());
}

// An f16 output that overflows is infinitely far from the oracle's finite one; JSON has no number
// for that. Here dv of key 0 does, 60000 x (1 + 1/2 + 1/3 + 1/4), and of key 1, 65000, does not.
TEST_F(RunCommandTest, InfiniteErrorFailsAndIsNull) {
  write_tensor("q.npy", {1, 1, 4, 2}, [](Index) { return 1.0; });
  write_tensor("v.npy", {1, 1, 4, 2}, [](Index) { return 60000.0; });
  write_tensor("do.npy", {1, 1, 4, 2}, [](Index) { return 60000.0; });
  const ProgramResult result =
      run("run --q q.npy --k q.npy --v v.npy --dtype f16 --backward --dout do.npy --mask causal "
          "--verify --json");
  EXPECT_EQ(result.status, 1);
  expect_has(result.err, {"dv: 2 of 8 values are NaN or infinite: beyond what f16 can hold",
                          "--verify: dv is off by inf"});
  const rapidjson::Document json = json_of(result.out);
  EXPECT_TRUE(json["verify"]["out"]["pass"].GetBool());
  EXPECT_FALSE(json["verify"]["dv"]["pass"].GetBool());
  EXPECT_TRUE(json["verify"]["dv"]["max_abs"].IsNull());
}

// No run is shorter than what a rank sleeps; with seed 0 that would be a third less.
TEST_F(RunCommandTest, TheSeedDrawsTheJitter) {
  Injection jitter{Fault::jitter};
  jitter.seed = 1;
  double slowest = 0;
  for (int rank = 0; rank < 2; ++rank)
    slowest = std::max(slowest, delay_before(jitter, 2, rank, Pass::forward, 0) +
                                    delay_before(jitter, 2, rank, Pass::forward, 1));
  const auto json =
      run_for_json("run --random --seed 1 --seqlen 64 --head-dim 4 --world-size 2 --inject jitter");
  EXPECT_GE(json["wall_s"].GetDouble(), slowest);
}

TEST_F(RunCommandTest, ScaleOfZeroIsNotTheDefault) {
  // All weights are equal: the output is the mean of V.
  write_tensor("q.npy", {1, 1, 4, 1}, [](Index i) { return static_cast<double>(i); });
  write_tensor("v.npy", {1, 1, 4, 1}, [](Index i) { return static_cast<double>(i * i); });
  run_well("run --q q.npy --k q.npy --v v.npy --scale 0 --out o.npy");
  for (const float x : read_values("o.npy", 4)) EXPECT_EQ(x, 3.5f);
}

TEST_F(RunCommandTest, InfoSaysWhatThereIs) {
  const std::string text = run_well("info");
  const auto json = run_for_json("info");
  for (const char* key : {"version", "compiler", "backend_cpu", "cores", "dtypes", "amx"})
    EXPECT_NE(text.find(json[key].GetString()), std::string::npos) << key;
  EXPECT_EQ("ringscope " + run_well("--version"),
            "ringscope " + std::string(json["version"].GetString()) + "\n");
}

// Where there is AMX, the run beside it takes it.
TEST_F(RunCommandTest, AmxCanBeTurnedOff) {
  const std::string off = "export RINGSCOPE_AMX=off";
  expect_has(run_after(off, "info").out, {"no: RINGSCOPE_AMX is off"});
  const Strings call = "run --random --dtype bf16 --seqlen 100 --backward --verify --out o.npy";
  EXPECT_EQ(run_after(off, call).status, 0);
  const std::string without = contents_of(path("o.npy"));
  run_well(call);
  const bool has_none = run("info").out.find("amx           yes") == std::string::npos;
  EXPECT_EQ(contents_of(path("o.npy")) == without, has_none);
}

// A block that is overwritten before it has left spoils rows of every query that attends it.
TEST_F(RunCommandTest, ASampleFindsWhatIsWrongEverywhere) {
  expect_ended(run("run --random --seqlen 512 --inject early-reuse --verify-rows 16"), 1,
               {"--verify: "});
}

// ---
// `run --verify` finds wrong numbers whatever the inputs' sizes, and calls right ones right.

// How large the inputs are; the scores are as large as of others.
struct Sizes {
  double q, v, dout;
};

class VerifyTest : public ProgramTest {
 protected:
  void write_inputs(Index seqlen, const Sizes& sizes, bool f64) const {
    const auto write = [&](const char* name, Index heads, double size, double begin) {
      write_tensor(
          name, {1, heads, seqlen, 8},
          [&](Index i) { return size * std::sin(begin + 1.7 * static_cast<double>(i * i % 1013)); },
          f64);
    };
    write("q.npy", 4, 3 * sizes.q, 0.1);
    write("k.npy", 2, 1 / sizes.q, 0.2);
    write("v.npy", 2, sizes.v, 0.3);
    write("do.npy", 4, sizes.dout, 0.4);
  }

  ProgramResult verify(const std::string& more) const {
    return run(
        Strings("run --q q.npy --k k.npy --v v.npy --dout do.npy --backward --world-size 4 "
                "--verify " +
                more));
  }
};

// Floors that don't shrink with the values passed whatever is below them: dK of a dO near 1e-7, and
// outputs of a V as small.
TEST_F(VerifyTest, FindsEveryMistakeAtEverySize) {
  // Three mistakes need ranks of unequal numbers of rows, or blocks without an allowed key.
  const struct {
    Index seqlen;
    const char* flags;
    bool is_uneven;
  } problems[] = {{48, "--partition zigzag --mask causal", false},
                  {46, "--mask causal+window:12", true}};
  const struct {
    Sizes sizes;
    const char* dtype;
    bool f64;
  } cases[] = {{{1, 1e-30, 1}, "f32", false}, {{1, 1, 1e-30}, "f32", true},
               {{1e-30, 1, 1}, "f32", false}, {{1, 1e30, 1}, "f32", true},
               {{1, 1, 1e30}, "f32", false},  {{1e30, 1, 1}, "f32", true},
               {{1, 1e-7, 1}, "bf16", false}, {{1, 1, 1e-30}, "bf16", true},
               {{1, 1e30, 1}, "bf16", true},  {{1, 1e-3, 1e-3}, "f16", false}};
  for (const auto& problem : problems)
    for (const auto& [sizes, dtype, f64] : cases) {
      write_inputs(problem.seqlen, sizes, f64);
      const std::string flags = fmt::format("{} --dtype {}", problem.flags, dtype);
      SCOPED_TRACE(
          fmt::format("{}, q {:g}, v {:g}, dout {:g}", flags, sizes.q, sizes.v, sizes.dout));
      const ProgramResult right = verify(flags);
      EXPECT_EQ(right.status, 0) << right.err << right.out;
      for (const Mistake mistake : kRingMistakes)
        if (problem.is_uneven ==
            (mistake == Mistake::rows_dropped || mistake == Mistake::masked_block_nan ||
             mistake == Mistake::unequal_shards)) {
          EXPECT_EQ(verify(fmt::format("{} --inject {}", flags, name_of(mistake))).status, 1)
              << name_of(mistake);
        }
    }
}

// Products of V and dO below the smallest number that f32 holds, of which a wrong gradient can't be told.
TEST_F(VerifyTest, CallsRightGradientsRightWhereF32Ends) {
  for (const double size : {1e-21, 1e-22, 3e-23}) {
    write_inputs(48, {1, size, size}, false);
    const ProgramResult right = verify("--partition zigzag --mask causal");
    EXPECT_EQ(right.status, 0) << size << right.err;
  }
}

// A single number of f32, whose error on one rank may be small by luck, is not judged by that alone
// where the other outputs are of 16 bits.
TEST_F(VerifyTest, CallsALargeGradientOfASinkRight) {
  for (const int begin : {2, 3, 4}) {
    double phase = begin;
    for (const auto& [name, size] :
         {std::pair{"q.npy", 1.0}, {"k.npy", 1.0}, {"v.npy", 1.0}, {"do.npy", 1e30}}) {
      phase += 0.1;
      write_tensor(name, {1, 1, 8, 1}, [size = size, phase](Index i) {
        return size * std::sin(phase + 1.7 * static_cast<double>(i));
      });
    }
    write_tensor("s.npy", {1}, [](Index) { return 0.5; });
    const ProgramResult right = verify("--dtype bf16 --mask causal --sink-logits s.npy");
    EXPECT_EQ(right.status, 0) << right.err;
  }
}

// One large row loosens the tolerance of no other. Query 5 is so long that rounding decides between
// its two nearly equal keys, on one rank as on four.
TEST_F(VerifyTest, JudgesEveryRowByItself) {
  const auto normal_at = [](RandomTensor tensor, double size, Index large, double factor) {
    return [=](Index i) { return size * (i / 64 == large ? factor : 1) * normal(3, tensor, i); };
  };
  const std::vector<Index> shape = {1, 1, 256, 64};
  write_tensor("q.npy", shape, normal_at(RandomTensor::q, 1, 5, 1e6));
  write_tensor("k.npy", shape, [](Index i) {
    return i / 64 % 128 != 7 ? normal(3, RandomTensor::k, i)
                             : (1 - 1e-7 * static_cast<double>(i / 64 / 128)) *
                                   normal(3, RandomTensor::q, 5 * 64 + i % 64);
  });
  write_tensor("v.npy", shape, normal_at(RandomTensor::v, 1, -1, 1));
  write_tensor("do.npy", shape, normal_at(RandomTensor::q, 1, -1, 1));
  EXPECT_EQ(verify("").status, 0);
  const ProgramResult wrong = verify("--inject own-block-only");
  expect_ended(wrong, 1, {"--verify: out is off by ", " in batch 0, head 0, row "});

  write_tensor("q.npy", shape, normal_at(RandomTensor::q, 1, -1, 1));
  write_tensor("v.npy", shape, normal_at(RandomTensor::v, 1, 0, 1e6));
  EXPECT_EQ(verify("--mask causal+window:64").status, 0);
  EXPECT_EQ(verify("--mask causal+window:64 --inject own-block-only").status, 1);
  const auto json = json_of(verify("--mask window:9 --inject missing-block --json").out);
  const auto& worst = json["verify"]["out"]["worst_row"];
  EXPECT_GT(worst["error"].GetDouble(), worst["tolerance"].GetDouble());
}

// Where a query attends one key alone, dP and delta are equal, and dq and dk are 0 but for what rounding
// leaves of them, in proportion to dP.
TEST_F(VerifyTest, CallsGradientsThatCancelRight) {
  for (const auto& [name, tensor] : {std::pair{"q.npy", RandomTensor::q},
                                     {"k.npy", RandomTensor::k},
                                     {"v.npy", RandomTensor::v}})
    write_tensor(name, {1, 4, 64, 64}, [t = tensor](Index i) { return 10 * normal(7, t, i); });
  write_tensor("do.npy", {1, 4, 64, 64},
               [](Index i) { return 10 * normal(8, RandomTensor::q, i); });
  EXPECT_EQ(verify("--mask window:1").status, 0);
  EXPECT_EQ(verify("--mask window:2 --inject delta-missing").status, 1);
}

// Rows without a key are right by an lse of -inf, also where a sample has no others.
TEST_F(VerifyTest, ComparesRowsWithoutKeys) {
  write_text("ranges.txt", "0 1 0 1 full\n");
  const Strings sample = "run --random --seqlen 64 --mask ranges:ranges.txt --verify-rows 2";
  const auto json = run_for_json(sample);
  EXPECT_TRUE(json["verify"]["lse"]["pass"].GetBool());
  EXPECT_EQ(json["verify"]["lse"]["non_finite"].GetInt(), 0);
}

// ---
// NaN and infinities: those of the inputs are told and computed with, those that come of finite
// inputs are told, and neither counts as verified.

class NonFiniteTest : public ProgramTest {};

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
  expect_has(result.err, {"--k: 1 NaN and 0 infinite", "--v: 0 NaN and 2 infinite"});
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
  // A mistake on purpose may leave rows without keys.
  EXPECT_EQ(run("run --random --seqlen 16 --mask causal --inject missing-block").err, "");
}

}  // namespace
}  // namespace ringscope
