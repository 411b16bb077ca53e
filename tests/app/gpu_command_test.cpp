// `--backend cuda` as the program offers it: in builds without CUDA, on machines without a GPU, and
// on those with one.
#include <gtest/gtest.h>

#include "tests/app/program.h"

namespace ringscope {
namespace {

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
  expect_refused("run --random --backend cuda --kernel 0", "--kernel", 2);
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
