// `ringscope simulate` as a program: that it agrees with `plan` and with `run`, what it writes, and
// how bad input is refused.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/app/program.h"

namespace ringscope {
namespace {

const Strings kMachine = "--gpu H100 --link NVLink4";

class SimulateCommandTest : public ProgramTest {};

TEST_F(SimulateCommandTest, JsonHasTheKeysOfARunAndMeansTheSame) {
  const Strings problem =
      "--world-size 3 --seqlen 101 --heads 4 --heads-kv 2 --head-dim 8 --dtype f32 --mask causal "
      "--backward --partition fold";
  const std::string seed = "12345678901234567891";  // more than a double holds
  const auto simulated =
      run_for_json(Strings("simulate") + kMachine + problem + Strings{"--seed", seed});
  const auto real = run_for_json(Strings("run --random") + problem);
  EXPECT_STREQ(simulated["backend"].GetString(), "sim");
  ASSERT_TRUE(simulated["machine"]["seed"].IsString());
  EXPECT_EQ(simulated["machine"]["seed"].GetString(), seed);
  for (const char* key : {"world_size", "partition", "mask", "scheme", "dtype", "shape", "backward",
                          "imbalance", "balance_ceiling"}) {
    ASSERT_TRUE(simulated.HasMember(key)) << key;
    EXPECT_TRUE(simulated[key] == real[key]) << key;
  }
  for (const char* key : {"wall_s", "exposed_s", "closed_form_s", "forward_s", "backward_s",
                          "critical_path", "steps", "simulated_in_s", "machine"})
    EXPECT_TRUE(simulated.HasMember(key)) << key;
  EXPECT_TRUE(simulated["kv_buffers"].IsNull());
  ASSERT_EQ(simulated["ranks"].Size(), 3u);
  for (unsigned r = 0; r < 3; ++r) {
    const auto &ours = simulated["ranks"][r], &theirs = real["ranks"][r];
    for (const char* key : {"rank", "rows", "pairs", "bytes_sent", "hops", "peak_bytes"}) {
      ASSERT_TRUE(ours.HasMember(key)) << key;
      EXPECT_EQ(ours[key].GetDouble(), theirs[key].GetDouble()) << key << " of rank " << r;
    }
    ASSERT_EQ(ours["pairs_by_step"].Size(), 3u);
    for (unsigned t = 0; t < 3; ++t)
      EXPECT_EQ(ours["pairs_by_step"][t].GetDouble(), theirs["pairs_by_step"][t].GetDouble());
    for (const char* key : {"compute_s", "wait_s", "exposed_s", "end_s"})
      EXPECT_TRUE(ours[key].IsNumber()) << key;
  }
}

TEST_F(SimulateCommandTest, FaultsMakeItSlowerAndBuffersHideJitter) {
  const auto wall = [&](const Strings& more) {
    return run_for_json(
               Strings("simulate") + kMachine +
               Strings("--world-size 8 --seqlen 131072 --mask causal --partition striped") +
               more)["wall_s"]
        .GetDouble();
  };
  const double even = wall({}), jittery = wall("--jitter 0.3 --seed 5");
  EXPECT_GT(jittery, 1.1 * even);
  const double hidden = wall("--jitter 0.3 --seed 5 --kv-buffers 4");
  EXPECT_LT(hidden, jittery);
  EXPECT_GT(hidden, even);
  EXPECT_NEAR(wall("--straggler 3:0.5"), 2 * even, 0.01 * even);
  EXPECT_NEAR(wall("--straggler 3:0.5,5:0.25"), 4 * even, 0.01 * even);
  EXPECT_GT(wall("--slow-link 3:0.001"), 2 * even);
  EXPECT_GT(wall("--hop-jitter 300"), even);
  EXPECT_NEAR(wall("--step-us 1000"), even + 8e-3, 1e-6);
  EXPECT_GT(wall("--tile 128x128"), even);
  EXPECT_NE(wall("--jitter 0.3 --seed 6"), jittery);
  EXPECT_EQ(wall("--jitter 0.3 --seed 5"), jittery);
}

TEST_F(SimulateCommandTest, NamesNoFlagThatIsFarFromAMistypedOne) {
  const ProgramResult far = run("simulate --nothing-like-it 4");
  EXPECT_EQ(far.err.find("or see"), std::string::npos) << far.err;
}

}  // namespace
}  // namespace ringscope
