// `--backend mpi` as people start it, with mpirun: the answer is that of the threads, what is wrong
// is said once, and every failure ends all ranks.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "core/trace/chrome_trace.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

class MpiCommandTest : public ProgramTest {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  }

  ProgramResult run_ranks(int ranks, const Strings& arguments) const {
    return mpirun(
        Strings{"-np", std::to_string(ranks), RINGSCOPE_PROGRAM, "run", "--backend", "mpi"} +
        arguments);
  }
  // Ranks 0 and 1, which is in another folder, with arguments of their own beside common ones.
  ProgramResult run_two(const Strings& common, const Strings& of_0, const Strings& of_1) const {
    const Strings program = Strings{RINGSCOPE_PROGRAM, "run", "--backend", "mpi"} + common;
    return mpirun_apart(2, program + of_0, program + of_1);
  }

  // Runs `arguments` on threads and on processes and compares the files of `outputs`.
  ProgramResult expect_same_files(int ranks, const Strings& arguments, const Strings& outputs) {
    Strings here, there;
    for (const std::string& flag : outputs) {
      here = here + Strings{flag, "cpu" + flag + ".npy"};
      there = there + Strings{flag, "mpi" + flag + ".npy"};
    }
    run_well(Strings{"run", "--world-size", std::to_string(ranks)} + arguments + here);
    const ProgramResult result = run_ranks(ranks, arguments + there + "--trace t.json");
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(lines_of_ours(result.err), Strings{});
    for (const std::string& flag : outputs)
      EXPECT_TRUE(contents_of(path("cpu" + flag + ".npy")) ==
                  contents_of(path("mpi" + flag + ".npy")))
          << flag;
    const Recording recording = read_chrome_trace(path("t.json"));
    EXPECT_EQ(recording.info.backend, "mpi");
    EXPECT_EQ(recording.events.size(), static_cast<std::size_t>(ranks));
    EXPECT_FALSE(recording.info.failure.has_value());
    return result;
  }
};

class WithoutMpi : public ProgramTest {};

TEST_F(WithoutMpi, TheBackendIsRefused) {
  if (run_well("info").find("this build has no MPI") == std::string::npos)
    GTEST_SKIP() << "this build has MPI";
  expect_refused("run --random --backend mpi --out o.npy",
                 {"--backend: 'mpi' is not in this build; accepted: cpu"});
}

const Strings kSmall = "--random --seqlen 96 --head-dim 8";
const Strings kAllOutputs = "--out --lse --dq --dk --dv";

TEST_F(MpiCommandTest, GivesTheBitsOfTheThreads) {
  const ProgramResult result =
      expect_same_files(3,
                        "--random --seqlen 131 --heads-kv 2 --head-dim 8 --mask causal --partition "
                        "zigzag --backward --verify --json",
                        kAllOutputs);
  const rapidjson::Document json = json_of(result.out);
  EXPECT_STREQ(json["backend"].GetString(), "mpi");
  EXPECT_EQ(json["world_size"].GetInt(), 3);
  ASSERT_EQ(json["ranks"].Size(), 3u);
  for (const auto& rank : json["ranks"].GetArray()) {
    EXPECT_EQ(rank["pairs"].GetInt64(), rank["predicted_pairs"].GetInt64());
    EXPECT_EQ(rank["hops"].GetInt(), 2 + 3);
    EXPECT_LE(rank["peak_bytes"].GetInt64(), rank["predicted_peak_bytes"].GetInt64());
  }
  EXPECT_TRUE(json["verify"]["pass"].GetBool());
}

TEST_F(MpiCommandTest, ReadsFilesOnRank0) {
  const auto value = [](Index i) { return 0.1 * static_cast<double>(i % 37 - 18); };
  for (const char* name : {"q.npy", "do.npy"}) write_tensor(name, {2, 4, 33, 5}, value, true);
  for (const char* name : {"k.npy", "v.npy"}) write_tensor(name, {2, 2, 33, 5}, value, true);
  expect_same_files(
      2, "--q q.npy --k k.npy --v v.npy --dout do.npy --backward --partition fold --dtype bf16",
      kAllOutputs);
  EXPECT_TRUE(read_npy(path("mpi--out.npy")).was_f64);
}

TEST_F(MpiCommandTest, OneProcessAloneIsARingOfOne) {
  const Strings alone = Strings("run --backend mpi") + kSmall;
  const rapidjson::Document json = run_for_json(alone + "--verify");
  EXPECT_EQ(json["world_size"].GetInt(), 1);
  const ProgramResult result = run(alone + "--world-size 4");
  expect_ended(result, 2, {"mpirun -np 4"});
}

TEST_F(MpiCommandTest, WhatIsWrongForAllIsSaidOnce) {
  expect_said_once(run_ranks(3, kSmall + "--mask diagonal"), 2, "--mask 'diagonal' accepted");
  expect_said_once(run_ranks(2, kSmall + "--world-size 3"), 2,
                   {"--world-size", "3", "2 processes", "mpirun -np 3"});
  expect_said_once(run_ranks(2, kSmall + "--out no/such/folder.npy"), 2,
                   "--out no/such/folder.npy");
  expect_said_once(run_ranks(2, kSmall + "--inject slow-rank@2"), 2, {"--inject", "ranks 0 to 1"});
  EXPECT_TRUE(files().empty());
}

TEST_F(MpiCommandTest, HelpIsPrintedOnce) {
  const ProgramResult result = run_ranks(2, "--help");
  EXPECT_EQ(result.status, 0) << result.err;
  const std::size_t at = result.out.find("--partition");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(result.out.find("--partition ", at + 1), std::string::npos) << result.out;
}

TEST_F(MpiCommandTest, ForgettingTheBackendIsRemarkedOn) {
  const ProgramResult result =
      mpirun(Strings{"-np", "2", RINGSCOPE_PROGRAM, "run", "--json"} + kSmall);
  expect_said_once(result, 0, {"each of 2 processes", "--backend mpi"});
}

TEST_F(MpiCommandTest, WhatIsWrongForOneRankEndsAll) {
  expect_said_once(run_two(kSmall, {}, "--dtype f64"), 2, "--dtype 'f64'");
}

TEST_F(MpiCommandTest, OptionsThatDifferAreNamed) {
  expect_said_once(run_two(kSmall, "--mask full", "--mask causal --out o.npy"), 3,
                   {"rank 1 has --mask causal", "rank 0 has --mask full"});
  expect_said_once(run_two(kSmall, "--seed 1", {}), 3,
                   {"rank 1 has nothing", "rank 0 has --seed 1"});
  EXPECT_TRUE(files().empty());
}

// ---
// `--backend cuda`: in builds without CUDA, on machines without a GPU, and on those with one.

class GpuCommandTest : public ProgramTest {
 protected:
  bool is_built() const { return !info_has("this build has no CUDA"); }
  bool has_device() const { return info_has("backend cuda  yes"); }
};

TEST_F(GpuCommandTest, WithoutCudaIsRefused) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  expect_refused({"run", "--random", "--backend", "cuda", "--out", path("o.npy")},
                 {"--backend: 'cuda' is not in this build; accepted: cpu"}, 2);
}

TEST_F(GpuCommandTest, WithoutADeviceSaysWhatIsNeeded) {
  if (!is_built() || has_device()) GTEST_SKIP() << "no CUDA in this build, or there is a device";
  const std::string info = run_well("info");
  expect_has(info, {"backend cuda  no: "});
  expect_has(info, {"07 hopper_overlap"});
  expect_refused({"run", "--random", "--backend", "cuda", "--out", path("o.npy")},
                 {"--backend cpu"}, 3);
}

TEST_F(GpuCommandTest, NcclWhereItCannotBeSaysWhy) {
  const std::string info = run_well("info");
  if (info.find("backend nccl  yes") != std::string::npos) GTEST_SKIP() << "it can be here";
  ASSERT_NE(info.find("backend nccl  no: "), std::string::npos) << info;
  const bool is_built = info.find("this build has no NCCL") == std::string::npos;
  expect_refused("run --random --backend nccl --out o.npy",
                 is_built ? Strings() : Strings{"--backend: 'nccl' is not in this build"},
                 is_built ? 3 : 2);
}

TEST_F(GpuCommandTest, KernelsAreOfTheCudaBackend) {
  if (!is_built()) GTEST_SKIP() << "no CUDA in this build";
  for (const char* const kernel : {"0", "100", "7bb", "b7", "7B"})
    expect_refused(std::string("run --random --backend cuda --kernel ") + kernel, "--kernel", 2);
  expect_refused("run --random --backend cuda --backward-kernel 9", "--backward", 2);
  expect_refused("run --random --backend cuda --scheme pass-q",
                 {"--scheme", "'pass-q'", "ring, bidirectional, allgather and two-level:M"}, 2);
}

// On a GPU: the ring of every kind of kernel, verified through the program.
TEST_F(GpuCommandTest, VerifiesOnADevice) {
  if (!is_built() || !has_device()) GTEST_SKIP() << "no CUDA in this build, or no device";
  for (const char* dtype : {"f32", "bf16", "f16"})
    for (const char* partition : {"contiguous", "striped", "zigzag", "fold"}) {
      const rapidjson::Document json = run_for_json(
          {"run", "--random", "--backend", "cuda", "--dtype", dtype, "--partition", partition,
           "--mask", "causal", "--world-size", "4", "--seqlen", "777", "--backward", "--verify"});
      EXPECT_STREQ(json["backend"].GetString(), "cuda");
      EXPECT_TRUE(json["verify"]["pass"].GetBool()) << dtype << " " << partition;
    }
}

}  // namespace
}  // namespace ringscope
