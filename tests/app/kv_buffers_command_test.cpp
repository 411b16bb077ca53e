// `run --kv-buffers` and lateness on purpose, as the program offers them.
#include <gtest/gtest.h>

#include "core/trace/chrome_trace.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

class KvBuffersCommandTest : public ProgramTest {
 protected:
  static Strings small(const Strings& more) {
    return "run --random --seqlen 61 --head-dim 4 --world-size 4" + more;
  }
};

TEST_F(KvBuffersCommandTest, GiveTheSameResultAndAreReported) {
  run_well(small("--backward --out o2.npy --dk dk2.npy"));
  for (const auto& [given, used] : {std::pair{"2", 2}, {"3", 3}, {"4", 4}, {"9", 4}}) {
    const auto json = run_for_json(small({"--backward", "--kv-buffers", given, "--out", "o.npy",
                                          "--dk", "dk.npy", "--trace", "t.json", "--verify"}));
    EXPECT_EQ(json["kv_buffers"].GetInt(), used);
    for (const auto& rank : json["ranks"].GetArray())
      EXPECT_EQ(rank["peak_bytes"].GetInt64(), rank["predicted_peak_bytes"].GetInt64());
    EXPECT_EQ(contents_of(path("o.npy")), contents_of(path("o2.npy")));
    EXPECT_EQ(contents_of(path("dk.npy")), contents_of(path("dk2.npy")));
    EXPECT_EQ(read_chrome_trace(path("t.json")).info.kv_buffers, used);
  }
  EXPECT_FALSE(run_for_json(small("--scheme allgather")).HasMember("kv_buffers"));
  EXPECT_NE(run_well(small("--kv-buffers 9")).find("ring, 4 KV buffers: "), std::string::npos);
  EXPECT_EQ(run_well(small({})).find("KV buffers"), std::string::npos);
}

// A block each: K and V of 32 rows, 4 heads and 64 values in bf16.
TEST_F(KvBuffersCommandTest, ArePlannedFor) {
  const auto peak_with = [&](const char* kv_buffers) {
    return run_for_json({"plan", "--gpu", "H100", "--link", "NVLink4", "--seqlen", "256", "--heads",
                         "4", "--head-dim", "64", "--world-size", "8", "--scheme", "ring",
                         "--kv-buffers", kv_buffers})["chosen"]["peak_bytes"]
        .GetDouble();
  };
  EXPECT_EQ(peak_with("5") - peak_with("2"), 3 * 2 * 32 * 4 * 64 * 2);
  EXPECT_EQ(peak_with("9"), peak_with("8"));
}

TEST_F(KvBuffersCommandTest, LatenessIsNoFailure) {
  for (const char* late : {"jitter", "straggler@0", "jitter@2:3"})
    run_well(small({"--kv-buffers", "3", "--inject", late, "--verify"}));
}

}  // namespace
}  // namespace ringscope
