// Faults on purpose with a thread per rank, as the program offers them: how the run ends, what it
// says, and the recording that it leaves.
#include <gtest/gtest.h>

#include <regex>

#include "core/threads/faulty_ring.h"
#include "core/trace/chrome_trace.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

class FaultCommandTest : public ProgramTest {
 protected:
  ProgramResult run_with(const std::string& fault, const Strings& more = {}) const {
    return run("run --random --seqlen 64 --head-dim 4 --world-size 3 --timeout 0.5 --inject " +
               fault + more);
  }
};

TEST_F(FaultCommandTest, EndTheRunAndLeaveItsRecording) {
  for (const char* fault : {"killed-rank@1:1", "wrong-count@1", "unposted-recv@1:1"}) {
    SCOPED_TRACE(fault);
    const ProgramResult result = run_with(fault, "--trace t.json --out o.npy");
    expect_ended(result, 3, {"rank 1"});
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(files(), std::set<std::string>{"t.json"});
    const Recording recording = read_chrome_trace(path("t.json"));
    ASSERT_TRUE(recording.info.failure.has_value());
    EXPECT_EQ(recording.info.failure->rank, 1);
    expect_has(result.err, {recording.info.failure->message});
    std::filesystem::remove(path("t.json"));
  }
}

TEST_F(FaultCommandTest, WithoutARoomForItsRecordingTheFailureIsStillSaid) {
  const ProgramResult result = run_with("killed-rank@1:1", "--trace /dev/full");
  expect_ended(result, 3, {"no trace of it: --trace /dev/full", "rank 1, step 1"});
}

// No run is shorter than what a rank sleeps; with seed 0 that would be a third less.
TEST_F(FaultCommandTest, TheSeedDrawsTheJitter) {
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

// ---
// `run --trace DIR/` gives each rank a file that Holistic Trace Analysis reads, all of them or none.

class TraceFolderTest : public ProgramTest {};

// What Holistic Trace Analysis 0.5.0 goes by: the file's first "rank", a stream in the arguments of
// what ran on a device, and names of kernels that begin with nccl and have Kernel in them for
// communication; all others with a stream count as computation.
TEST_F(TraceFolderTest, HasKernelsThatHtaKnows) {
  run_well("run --random --seqlen 256 --backward --mask causal --trace tr/ --out o.npy");
  for (int rank = 0; rank < 4; ++rank) {
    SCOPED_TRACE(rank);
    const std::string file = path("tr/rank" + std::to_string(rank) + ".json");
    const std::string text = contents_of(file);
    std::smatch first;
    ASSERT_TRUE(std::regex_search(text, first, std::regex("\"rank\":\\s+(\\d+)")));
    EXPECT_EQ(first[1], std::to_string(rank));
    const auto json = json_of(text);
    EXPECT_STREQ(json["provenance"]["seed"].GetString(), "0");
    double computing = 0, moving = 0, sent = 0;
    for (const auto& event : json["traceEvents"].GetArray()) {
      EXPECT_EQ(event["pid"].GetInt(), rank);
      if (std::string(event["ph"].GetString()) != "X") continue;
      const std::string cat = event["cat"].GetString();
      if (cat == "send" || cat == "recv") sent += event["dur"].GetDouble();
      if (!event["args"].HasMember("stream")) continue;
      const bool nccl = std::regex_search(event["name"].GetString(), std::regex("^nccl.*Kernel"));
      (nccl ? moving : computing) += event["dur"].GetDouble();
      EXPECT_EQ(cat, nccl ? "kernel" : "compute");
    }
    EXPECT_GT(computing, 0);
    EXPECT_NEAR(moving, sent, 1e-9 * sent + 1e-6);
    EXPECT_GT(moving, 0);
    EXPECT_EQ(run(Strings{"explain", file}).status, 0);
    if (has_viewer() && rank == 1)
      run_well(Strings{"view", file, "--screenshot", "r.png", "--size", "640x400"});
  }
  expect_refused("run --random --seqlen 32 --trace tr/", {"--trace", "not empty"});
}

TEST_F(TraceFolderTest, IsWholeOrNotAtAll) {
  std::filesystem::create_directory(path("full"));
  write_text("full/mine", "kept");
  write_text("file", "kept");
  const auto into = [](const std::string& place) {
    return Strings{"run", "--random", "--seqlen", "32", "--trace", place + "/"};
  };
  for (const char* place : {"full", "file", "not/there"})
    expect_refused(into(place), {"--trace", place, "accepted:"});
  const auto before = files();
  expect_ended(run_after("ulimit -f 1", into("d")), 3, {"d/rank0.json: writing failed"});
  EXPECT_EQ(files(), before);
  std::filesystem::create_directory(path("d"));
  std::filesystem::permissions(path("d"), std::filesystem::perms::owner_all);
  run_well(into("d"));
  EXPECT_EQ(std::filesystem::status(path("d")).permissions(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(std::filesystem::exists(path("d/rank3.json")));
  std::filesystem::create_directory(path("empty"));
  std::filesystem::create_symlink("empty", path("link"));
  run_well(into("link"));
  EXPECT_TRUE(std::filesystem::exists(path("empty/rank3.json")));
}

}  // namespace
}  // namespace ringscope
