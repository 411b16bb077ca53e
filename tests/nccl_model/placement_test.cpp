// Which rank gets which GPU, and what NCCL has to be told.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "cuda/nccl/placement.h"

namespace ringscope::cuda {
namespace {

constexpr int k228 = 22809, k230 = 23003;

std::vector<int> devices(const std::vector<RankGpus>& ranks) { return place_ranks(ranks).devices; }

TEST(Placement, EveryRankOfAMachineHasItsOwnGpu) {
  const RankGpus first{"a", {"0", "1", "2", "3"}}, second{"b", {"4", "5"}};
  EXPECT_EQ(devices({first, first, first, first}), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(devices({first, second, first, second}), (std::vector{0, 0, 1, 1}));
  EXPECT_FALSE(place_ranks(std::vector{first, second, first, second}).shares_gpus);
}

// As a launcher shows each of its processes another one.
TEST(Placement, ProcessesThatSeeOneGpuEachTakeThat) {
  const std::vector<RankGpus> ranks = {{"a", {"x"}}, {"a", {"y"}}, {"a", {"z"}}};
  EXPECT_EQ(devices(ranks), (std::vector{0, 0, 0}));
  EXPECT_FALSE(place_ranks(ranks).shares_gpus);
}

TEST(Placement, GpusAreSharedEvenlyWhereThereAreTooFew) {
  const RankGpus two{"a", {"0", "1"}};
  const Placement placement = place_ranks(std::vector<RankGpus>(5, two));
  EXPECT_EQ(placement.devices, (std::vector{0, 1, 0, 1, 0}));
  EXPECT_TRUE(placement.shares_gpus);
}

TEST(Placement, ARankWithoutAGpuIsNamed) {
  try {
    place_ranks(std::vector<RankGpus>{{"a", {"0"}}, {"b", {}}});
    ADD_FAILURE();
  } catch (const RunError& error) {
    EXPECT_EQ(error.rank(), 1);
  }
}

TEST(NcclEnvironment, IsEmptyUnlessGpusAreShared) {
  const RankGpus two{"a", {"0", "1"}};
  const Placement placement = place_ranks(std::vector{two, two});
  for (const int version : {k228, k230})
    for (const bool are_processes : {false, true})
      EXPECT_TRUE(nccl_environment(placement, version, are_processes, 1).empty());
}

TEST(NcclEnvironment, ForRanksThatShareOne) {
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
}

// Loopback does not lead to another machine.
TEST(NcclEnvironment, KeepsTheNetworkBetweenMachines) {
  const RankGpus a{"a", {"0"}}, b{"b", {"1"}};
  for (const auto& [name, value] :
       nccl_environment(place_ranks(std::vector{a, a, b}), k228, true, 0))
    EXPECT_NE(name, "NCCL_SOCKET_IFNAME");
}

}  // namespace
}  // namespace ringscope::cuda
