// What processes tell each other before they connect, so that each knows its GPU.
#include <gtest/gtest.h>

#include "cuda/nccl/placement.h"

namespace ringscope::cuda {
namespace {

TEST(GpuReports, AreReadBackAsTheyWere) {
  const std::vector<GpuReport> reports = {{{"host a boot", {"u0", "u1"}}, 22809, ""},
                                          {{"host b", {}}, 0, "no NVIDIA driver is there; see, X"},
                                          {{"c", {"only"}}, 23003, ""}};
  for (const GpuReport& report : reports) EXPECT_EQ(report_from(to_lines(report)), report);
}

TEST(GpuReports, TheRankThatCannotIsNamed) {
  const GpuReport good{{"a", {"0"}}, 22809, ""};
  const auto rank_of = [&](const std::vector<GpuReport>& reports) {
    try {
      check_reports(reports);
      return -1;
    } catch (const RunError& error) {
      return error.rank();
    }
  };
  GpuReport other = good, none = good;
  other.nccl_version = 23003;
  none.why_not = "no GPU";
  EXPECT_EQ(rank_of({good, good}), -1);
  EXPECT_EQ(rank_of({good, other, none}), 1);
  EXPECT_EQ(rank_of({good, good, none}), 2);
}

}  // namespace
}  // namespace ringscope::cuda
