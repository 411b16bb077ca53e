// Which rank gets which GPU, what NCCL has to be told, and what processes tell each other of it.
#include "cuda/nccl/placement.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/base/thrown.h"

namespace ringscope::cuda {
namespace {

constexpr int k228 = 22809, k230 = 23003;

// The least used GPU that a rank sees; as launchers may show each of their processes another one.
TEST(Placement, GivesEachRankTheLeastUsedGpu) {
  const RankGpus two{"a", {"0", "1"}}, four{"a", {"0", "1", "2", "3"}}, other{"b", {"4", "5"}};
  const struct {
    std::vector<RankGpus> ranks;
    std::vector<int> devices;
    bool shares_gpus;
  } cases[] = {{{four, four, four, four}, {0, 1, 2, 3}, false},
               {{four, other, four, other}, {0, 0, 1, 1}, false},
               {{{"a", {"x"}}, {"a", {"y"}}, {"a", {"z"}}}, {0, 0, 0}, false},
               {std::vector<RankGpus>(5, two), {0, 1, 0, 1, 0}, true}};
  for (const auto& [ranks, devices, shares_gpus] : cases) {
    const Placement placement = place_ranks(ranks);
    EXPECT_EQ(placement.devices, devices);
    EXPECT_EQ(placement.shares_gpus, shares_gpus);
    if (shares_gpus) continue;
    for (const int version : {k228, k230})
      for (const bool are_processes : {false, true})
        EXPECT_TRUE(nccl_environment(placement, version, are_processes, 1).empty());
  }
  EXPECT_EQ(run_error_of([] {
              place_ranks(std::vector<RankGpus>{{"a", {"0"}}, {"b", {}}});
            }),
            "rank 1, step -1: sees no GPU");
}

TEST(NcclEnvironment, IsForRanksThatShareAGpu) {
  const Placement placement = place_ranks(std::vector<RankGpus>(3, RankGpus{"a", {"0"}}));
  for (const bool are_processes : {false, true})
    EXPECT_EQ(nccl_environment(placement, k230, are_processes, 1),
              (Environment{{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}));
  const Environment first = nccl_environment(placement, k228, true, 0);
  const Environment second = nccl_environment(placement, k228, true, 1);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].first, "NCCL_HOSTID");
  EXPECT_NE(first[0].second, second[0].second);
  EXPECT_EQ(first[2], (std::pair<std::string, std::string>("NCCL_SOCKET_IFNAME", "lo")));
  EXPECT_THROW(nccl_environment(placement, k228, false, 0), RunError);
  // Loopback does not lead to another machine.
  const RankGpus a{"a", {"0"}}, b{"b", {"1"}};
  for (const auto& [name, value] :
       nccl_environment(place_ranks(std::vector{a, a, b}), k228, true, 0))
    EXPECT_NE(name, "NCCL_SOCKET_IFNAME");
}

TEST(GpuReports, AreReadBackAndNameTheRankThatCannot) {
  const GpuReport good{{"host a boot", {"u0", "u1"}}, k228, ""};
  const GpuReport none{{"host b", {}}, 0, "no NVIDIA driver is there; see, X"};
  const GpuReport other{{"c", {"only"}}, k230, ""};
  for (const GpuReport& report : {good, none, other})
    EXPECT_EQ(report_from(to_lines(report)), report);
  EXPECT_NO_THROW(check_reports({good, good}));
  EXPECT_EQ(run_error_of([&] {
              check_reports({good, other, none});
            }),
            "rank 1, step -1: rank 1 has NCCL 2.30.3, rank 0 has NCCL 2.28.9");
  EXPECT_EQ(run_error_of([&] {
              check_reports({good, good, none});
            }),
            "rank 2, step -1: backend nccl: no NVIDIA driver is there; see, X");
}

}  // namespace
}  // namespace ringscope::cuda
