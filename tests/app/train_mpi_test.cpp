// `train` with a process a rank: the same bits, one voice, and an end for all.
#include <gtest/gtest.h>

#include "core/trace/chrome_trace.h"
#include "core/train/checkpoint.h"
#include "tests/app/train_case.h"
#include "tests/core/decode/checkpoint_case.h"

namespace ringscope {
namespace {

class TrainMpiTest : public TrainCommandTest {
 protected:
  void SetUp() override {
    ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // what MPI leaves has no name by then
    if (run_well({"info"}).find("backend mpi   yes") == std::string::npos)
      GTEST_SKIP() << "this build has no MPI";
    if (run_words({"/bin/sh", "-c", "command -v mpirun"}).status != 0)
      GTEST_SKIP() << "no mpirun here";
  }
  void TearDown() override { ::unsetenv("LSAN_OPTIONS"); }

  ProgramResult mpirun(const Strings& arguments) const {
    return run_words(Strings{"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1",
                             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                             "OMPI_MCA_rmaps_base_oversubscribe=1",
                             "OMPI_MCA_odls_base_sigkill_timeout=0", "mpirun"} +
                     arguments + Strings{"--backend", "mpi"});
  }
  ProgramResult mpirun(int ranks, const Strings& arguments) const {
    return mpirun(Strings{"-np", std::to_string(ranks), RINGSCOPE_PROGRAM} + arguments);
  }
  // Lines that the program said; a launcher says more.
  static Strings lines_of_ours(const std::string& err) {
    std::istringstream text(err);
    Strings lines;
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("ringscope: ")) lines.push_back(line);
    return lines;
  }
};

TEST_F(TrainMpiTest, GivesTheBitsOfTheThreads) {
  const Strings first = kTiny + Strings{"--steps", "3", "--checkpoint", "3.ckpt"};
  run_well(first);
  const Strings then{"train", "--text", "t.txt", "--resume", "3.ckpt", "--steps", "6"};
  run_well(then + Strings{"--checkpoint", "cpu.ckpt", "--loss-csv", "cpu.csv"});
  const ProgramResult result = mpirun(2, then + Strings{"--checkpoint", "mpi.ckpt", "--loss-csv",
                                                        "mpi.csv", "--trace", "t.json", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of_ours(result.err), Strings{});
  EXPECT_TRUE(bytes("mpi.ckpt") == bytes("cpu.ckpt"));
  EXPECT_EQ(bytes("mpi.csv"), bytes("cpu.csv"));
  rapidjson::Document json;
  json.Parse(result.out.c_str(), result.out.size());  // one object, or it is an error
  ASSERT_FALSE(json.HasParseError()) << result.out;
  EXPECT_STREQ(json["backend"].GetString(), "mpi");
  EXPECT_EQ(json["ranks"].Size(), 2u);
  const Recording recording = read_chrome_trace(path("t.json"));
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_FALSE(recording.events[1].empty());
}

// A rank that is killed after a second of work: the others end, and what there is of the curve is
// kept.
TEST_F(TrainMpiTest, TheDeathOfARankEndsAllAndLosesNoLosses) {
  const Strings program =
      Strings{RINGSCOPE_PROGRAM} + kTiny + Strings{"--steps", "100000000", "--loss-csv", "l.csv"};
  const ProgramResult result = mpirun(Strings{"-np", "1"} + program +
                                      Strings{"--backend", "mpi", ":", "-np", "1", "/bin/sh", "-c",
                                              "ulimit -t 1 && exec \"$0\" \"$@\""} +
                                      program);
  EXPECT_EQ(result.status, 3) << result.err;
  const Strings lines = lines_of_ours(result.err);
  ASSERT_EQ(lines.size(), 1u) << result.err;
  EXPECT_NE(lines[0].find("rank 1"), std::string::npos) << lines[0];
  EXPECT_FALSE(losses("l.csv").empty());
}

// The others write no text, so that what it goes on from is nothing to them.
TEST_F(TrainMpiTest, TheSampleIsTheFirstRanksAlone) {
  save_checkpoint(path("17.ckpt"), small_checkpoint(17));
  write_text("t.txt", std::string(400, '\x05'));
  const Strings program{RINGSCOPE_PROGRAM, "train",   "--text", "t.txt",    "--resume",
                        "17.ckpt",         "--steps", "8",      "--sample", "5"};
  const ProgramResult result =
      mpirun(Strings{"-np", "1"} + program + Strings{"--backend", "mpi", ":", "-np", "1"} +
             program + Strings{"--prompt", "x"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of_ours(result.err), Strings{});
  EXPECT_NE(result.out.find("on the wire"), std::string::npos) << result.out;
}

TEST_F(TrainMpiTest, WhatIsWrongIsSaidOnce) {
  const ProgramResult result = mpirun(2, kTiny + Strings{"--loss-csv", "no/such.csv"});
  EXPECT_EQ(result.status, 2) << result.err;
  const Strings lines = lines_of_ours(result.err);
  ASSERT_EQ(lines.size(), 1u) << result.err;
  EXPECT_NE(lines[0].find("--loss-csv"), std::string::npos) << lines[0];
}

}  // namespace
}  // namespace ringscope
