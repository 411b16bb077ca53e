// `ringscope simulate` as a program: that it agrees with `plan` and with `run`, what it writes, and
// how bad input is refused.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>

#include "core/trace/chrome_trace.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

const Strings kMachine = "--gpu H100 --link NVLink4";
const Strings kProblem = "--world-size 8 --seqlen 32768";

Strings simulate_with(const Strings& more) { return "simulate" + kMachine + kProblem + more; }

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

TEST_F(SimulateCommandTest, NodesWithSlowLinks) {
  const auto wall = [&](const Strings& more) {
    return run_for_json(
               simulate_with(Strings("--nodes 2 --between Ethernet-100G") + more))["wall_s"]
        .GetDouble();
  };
  const double flat = wall({});
  const double cyclic = wall("--placement cyclic");
  EXPECT_GT(cyclic, flat);
  EXPECT_LT(wall("--placement cyclic --nics 4"), cyclic);
  const double two_level = wall("--scheme two-level");
  EXPECT_LT(two_level, flat);
  EXPECT_LT(wall("--scheme two-level --nics 4"), two_level);
  // A recording names nodes only if they are equal shares of consecutive ranks.
  for (const char* const placement : {"block", "cyclic"}) {
    wall({"--placement", placement, "--trace", path("t.json")});
    const int nodes = read_chrome_trace(path("t.json")).info.machine->nodes;
    EXPECT_EQ(nodes, placement == std::string("block") ? 2 : 1);
  }
}

TEST_F(SimulateCommandTest, TraceOfManyRanksIsASample) {
  const auto json = run_for_json("simulate --world-size 300 --seqlen 300000 --kv-buffers 2" +
                                 kMachine + "--trace t.json --trace-ranks 5");
  EXPECT_EQ(json["steps"].GetInt64(), 300 * 300);
  EXPECT_EQ(json["ranks"].Size(), 256u);
  EXPECT_EQ(json["ranks"][255]["rank"].GetInt(), 299);
  EXPECT_EQ(json["recorded_ranks"].GetInt(), 5);
  const Recording recording = read_chrome_trace(path("t.json"));
  EXPECT_EQ(std::count_if(recording.events.begin(), recording.events.end(),
                          [](const auto& events) { return !events.empty(); }),
            5);
}

TEST_F(SimulateCommandTest, SweepWritesATable) {
  const Strings sweep =
      Strings("simulate") + kMachine + Strings{"--mask",         "causal",
                                               "--csv",          path("s.csv"),
                                               "--sweep",        "seqlen=8192:32768:*2,",
                                               "world-size=4,8", "partition=zigzag,striped"};
  const std::string out = run_well(sweep);
  expect_has(out, {"12 simulations"});
  const std::string csv = contents_of(path("s.csv"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 13);
  const std::string head = "," + csv.substr(0, csv.find('\n')) + ",";
  for (const char* column :
       {"seqlen", "world_size", "partition", "scheme", "mask", "kv_buffers", "bandwidth_gb_per_s",
        "jitter", "wall_s", "exposed_s", "efficiency", "closed_form_s", "peak_bytes"})
    expect_has(head, Strings{"," + std::string(column) + ","});
  const auto json = run_for_json(sweep);
  ASSERT_EQ(json["sweep"].Size(), 12u);
  // The same as that simulation alone.
  const auto alone =
      run_for_json(Strings("simulate") + kMachine +
                   Strings("--mask causal --seqlen 32768 --world-size 8 --partition striped"));
  EXPECT_EQ(json["sweep"][11]["wall_s"].GetDouble(), alone["wall_s"].GetDouble());
}

TEST_F(SimulateCommandTest, NamesNoFlagThatIsFarFromAMistypedOne) {
  const ProgramResult far = run("simulate --nothing-like-it 4");
  EXPECT_EQ(far.err.find("or see"), std::string::npos) << far.err;
}

}  // namespace
}  // namespace ringscope
