// What processes tell each other before they connect, and what `info` tells people.
#include <gtest/gtest.h>

#include "cuda/nccl/placement.h"

namespace ringscope::cuda {
namespace {

TEST(GpuReports, AreReadBackAsTheyWere) {
  const std::vector<GpuReport> reports = {{{"host a boot", {"u0", "u1"}}, 22809, ""},
                                          {{"host b", {}}, 0, "no NVIDIA driver is there; see, X"},
                                          {{"c", {"only"}}, 23003, ""}};
  std::string all;
  for (const GpuReport& report : reports) all += pack(report);
  EXPECT_EQ(reports_of(all, 3), reports);
  for (const std::string& other :
       {std::string("nonsense"), all + "x", all.substr(1), std::string()})
    EXPECT_THROW(reports_of(other, 3), RunError);
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

// 989.4e12 * 0.71 FLOP/s over 450e9 bytes/s, and twice as many rows for half of the pairs.
TEST(NcclDetails, RowsAreThoseOfTheClosedForm) {
  const std::string text = links_text("NVIDIA H200", 90, {{0, 1, true, true}, {0, 2, true, true}});
  EXPECT_NE(text.find("NVLink (NVLink4): 0-1 0-2"), std::string::npos) << text;
  EXPECT_NE(text.find("c = F/B = 1561 rows"), std::string::npos) << text;
  EXPECT_NE(text.find("3122 (causal, balanced)"), std::string::npos) << text;
}

TEST(NcclDetails, OtherLinksAndUnknownGpusAreToldApart) {
  const std::string mixed =
      links_text("NVIDIA A100-SXM4-80GB", 80, {{0, 1, true, false}, {1, 2, false, false}});
  EXPECT_NE(mixed.find("PCIe, direct access (PCIe4): 0-1"), std::string::npos) << mixed;
  EXPECT_NE(mixed.find("through the host's memory: 1-2"), std::string::npos) << mixed;
  EXPECT_NE(mixed.find("at best: "), std::string::npos) << mixed;
  EXPECT_NE(links_text("Some GPU", 90, {{0, 1, true, true}}).find("not in the table"),
            std::string::npos);
}

}  // namespace
}  // namespace ringscope::cuda
