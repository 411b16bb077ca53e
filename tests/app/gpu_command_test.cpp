// `--backend cuda` as the program offers it: in builds without CUDA, on machines without a GPU, and
// on those with one.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/app/program.h"

namespace ringscope {
namespace {

class GpuCommandTest : public ProgramTest {
 protected:
  bool is_built() const {
    return run_well({"info"}).find("this build has no CUDA") == std::string::npos;
  }
  bool has_device() const {
    return run_well({"info"}).find("backend cuda  yes") != std::string::npos;
  }
  void expect_one_line(const ProgramResult& result, int status, const std::string& part) const {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << part << " is not in: " << result.err;
    EXPECT_TRUE(files().empty());
  }
};

TEST_F(GpuCommandTest, WithoutCudaIsRefused) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  expect_one_line(run({"run", "--random", "--backend", "cuda", "--out", path("o.npy")}), 2,
                  "--backend: 'cuda' is not in this build; accepted: cpu");
}

TEST_F(GpuCommandTest, WithoutADeviceSaysWhatIsNeeded) {
  if (!is_built() || has_device()) GTEST_SKIP() << "no CUDA in this build, or there is a device";
  const std::string info = run_well({"info"});
  EXPECT_NE(info.find("backend cuda  no: "), std::string::npos) << info;
  EXPECT_NE(info.find("07 hopper_overlap"), std::string::npos) << info;
  expect_one_line(run({"run", "--random", "--backend", "cuda", "--out", path("o.npy")}), 3,
                  "--backend cpu");
}

TEST_F(GpuCommandTest, NcclWhereItCannotBeSaysWhy) {
  const std::string info = run_well({"info"});
  if (info.find("backend nccl  yes") != std::string::npos) GTEST_SKIP() << "it can be here";
  ASSERT_NE(info.find("backend nccl  no: "), std::string::npos) << info;
  const ProgramResult result =
      run({"run", "--random", "--backend", "nccl", "--out", path("o.npy")});
  if (info.find("this build has no NCCL") != std::string::npos) {
    expect_one_line(result, 2, "--backend: 'nccl' is not in this build; accepted: cpu");
  } else {
    expect_one_line(result, 3, "");
  }
}

TEST_F(GpuCommandTest, KernelsAreOfTheCudaBackend) {
  expect_one_line(run({"run", "--random", "--kernel", "5"}), 2, "--kernel");
  expect_one_line(run({"run", "--random", "--backward-kernel", "9"}), 2, "--backward-kernel");
  expect_one_line(run({"run", "--random", "--cupti"}), 2, "--cupti");
  expect_one_line(run({"run", "--random", "--gpus", "2"}), 2, "--gpus");
  if (!is_built()) return;
  expect_one_line(run({"run", "--random", "--backend", "cuda", "--kernel", "0"}), 2, "--kernel");
  expect_one_line(run({"run", "--random", "--backend", "cuda", "--backward-kernel", "9"}), 2,
                  "--backward");
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
