// `train` with a process per rank: the same bits, one voice, and an end for all.
#include <gtest/gtest.h>

#include "core/trace/chrome_trace.h"
#include "tests/app/train_case.h"

namespace ringscope {
namespace {

class TrainMpiTest : public TrainCommandTest {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  }

  ProgramResult mpirun(const Strings& arguments) const {
    return ProgramTest::mpirun(arguments + "--backend mpi");
  }
  ProgramResult mpirun(int ranks, const Strings& arguments) const {
    return mpirun(Strings{"-np", std::to_string(ranks), RINGSCOPE_PROGRAM} + arguments);
  }
};

TEST_F(TrainMpiTest, GivesTheBitsOfTheThreads) {
  const Strings first = kTiny + "--steps 3 --checkpoint 3.ckpt";
  run_well(first);
  const Strings then = "train --text t.txt --resume 3.ckpt --steps 6";
  run_well(then + "--checkpoint cpu.ckpt --loss-csv cpu.csv");
  const ProgramResult result =
      mpirun(2, then + "--checkpoint mpi.ckpt --loss-csv mpi.csv --trace t.json --json");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of_ours(result.err), Strings{});
  EXPECT_TRUE(bytes("mpi.ckpt") == bytes("cpu.ckpt"));
  EXPECT_TRUE(rows("mpi.csv") == rows("cpu.csv"));
  EXPECT_EQ(rows("cpu.csv").size(), 3u);
  const rapidjson::Document json = json_of(result.out);
  EXPECT_STREQ(json["backend"].GetString(), "mpi");
  EXPECT_EQ(json["ranks"].Size(), 2u);
  const Recording recording = read_chrome_trace(path("t.json"));
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_FALSE(recording.events[1].empty());
}

TEST_F(TrainMpiTest, HasTheSameGroups) {
  const Strings tiny =
      tiny_with_kv_heads() + "--steps 3 --tensor 2 --data 2 --dtype bf16 --checkpoint";
  run_well(tiny + "cpu.ckpt --world-size 1");
  const ProgramResult result = mpirun(4, tiny + "mpi.ckpt --trace t.json");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(bytes("mpi.ckpt") == bytes("cpu.ckpt"));
  EXPECT_EQ(read_chrome_trace(path("t.json")).info.world_size, 1);
  expect_said_once(mpirun(3, tiny + "no.ckpt"), 2, {"--tensor, --data", "3 processes"});
}

// A rank that is killed after a second of work: the others end, and what there is of the curve is
// kept.
TEST_F(TrainMpiTest, TheDeathOfARankEndsAllAndLosesNoLosses) {
  // Its steps are work more than waiting, so that its second of a processor is soon over.
  const Strings program =
      Strings{RINGSCOPE_PROGRAM} +
      "train --text t.txt --layers 1 --seqlen 512 --batch 8 --steps 100000000 --loss-csv l.csv "
      "--backend mpi";
  const Strings limit{"/bin/sh", "-c", "ulimit -t 1 && exec \"$0\" \"$@\""};
  const ProgramResult result = mpirun_apart(2, program, limit + program);
  expect_said_once(result, 3, {"rank 1", "in training step "});
  EXPECT_FALSE(losses("l.csv").empty());
}

TEST_F(TrainMpiTest, WhatIsWrongIsSaidOnce) {
  expect_said_once(mpirun(2, kTiny + "--loss-csv no/such.csv"), 2, "--loss-csv");
}

}  // namespace
}  // namespace ringscope
