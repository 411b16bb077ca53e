// What a gpu-check makes of the ring over NCCL: right, wrong, slow to end, and not there.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/gpu_check/fake_pack.h"

namespace ringscope {
namespace {

class NcclParts : public testing::Test {
 protected:
  void SetUp() override { skip_without_python(); }
  // Of a check with this environment, whose exit status must be as given.
  rapidjson::Document check(const std::string& environment, int status) const {
    pack.remove_results();
    const Ended ended = pack.run("", environment);
    EXPECT_EQ(ended.status, status) << environment << ended.out << ended.err;
    return pack.results();
  }
  // How a part ended, and what it says of that, in one text.
  static std::string said(const rapidjson::Document& results, const std::string& part) {
    const std::string more = detail(results, part);
    return status(results, part) + (more.empty() ? "" : ": " + more);
  }

  FakePack pack;
};

TEST_F(NcclParts, WhenAllIsWell) {
  const auto results = check("", 0);
  EXPECT_TRUE(said(results, "NCCL ring").starts_with("passed")) << said(results, "NCCL ring");
  EXPECT_TRUE(said(results, "NCCL memcheck").starts_with("passed"));
  EXPECT_EQ(said(results, "NCCL speed"), "passed: not measured: links; not measured: links");
  int measured = 0;
  for (const auto& one : results["benchmarks"].GetArray())
    measured += std::string(one["name"].GetString()).starts_with("nccl/ring/zigzag/forward");
  EXPECT_EQ(measured, 2);
}

TEST_F(NcclParts, WhatIsNotThereIsNoFailure) {
  const auto without = check("FAKE_NCCL=none", 0);
  EXPECT_EQ(said(without, "NCCL ring"), "not measured: NCCL is not found");
  EXPECT_TRUE(said(without, "NCCL speed").starts_with("not measured: skipped: NCCL is not found"));
  pack.remove("bin/nccl_tests");
  pack.remove("bin/nccl_ring");
  const auto not_built = check("", 0);
  for (const char* const part : {"NCCL ring", "NCCL memcheck", "NCCL speed"})
    EXPECT_EQ(said(not_built, part), "not measured: the pack was built without NCCL");
}

TEST_F(NcclParts, WhatFailsIsAFailure) {
  EXPECT_NE(said(check("FAKE_NCCL=fails", 1), "NCCL ring").find("failed: 0 passed, 1 failed"),
            std::string::npos);
  EXPECT_NE(said(check("FAKE_NCCL=breaks", 1), "NCCL ring").find("failed: ended by signal"),
            std::string::npos);
  EXPECT_NE(said(check("FAKE_NCCL=finds", 1), "NCCL memcheck").find("failed"), std::string::npos);
  EXPECT_NE(said(check("FAKE_NCCL=speed-fails", 1), "NCCL speed").find("failed: exit status 3"),
            std::string::npos);
}

}  // namespace
}  // namespace ringscope
