// `ringscope demo`: what it prints, what it records and what the README says of its picture agree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "core/tools/foreign/trace_files.h"
#include "tests/app/program.h"
#include "viz/data/analysis/comparison.h"
#include "viz/data/session/format.h"

namespace ringscope {
namespace {

class DemoCommandTest : public ProgramTest {
 protected:
  std::string demo(int seqlen) const {
    std::string text;
    for (int i = 0; i < 100; ++i)
      text += "word " + std::to_string(i * i) + " and the ring goes round\n";
    write_text("t.txt", text);
    return run_well(fmt::format("demo --text t.txt --out a/b --no-view --seqlen {}", seqlen));
  }
  viz::Document document(const std::string& name) const {
    return viz::make_document(load_trace(path("a/b/" + name + ".json")));
  }
};

const std::vector<std::string> kPartitions = {"contiguous", "striped", "zigzag", "fold"};

TEST_F(DemoCommandTest, ComparesAllPartitions) {
  const std::string out = demo(1000);
  for (const std::string& partition : kPartitions) {
    expect_has(out, Strings{"\n" + partition});
    EXPECT_EQ(document(partition).trace.info.backend, "cpu");
  }
  expect_has(out, {"all query rows"});
  std::size_t verified = 0;
  for (std::size_t at = 0; (at = out.find("verified", at)) != std::string::npos; ++at) ++verified;
  EXPECT_EQ(verified, 4u) << out;
}

TEST_F(DemoCommandTest, OfFewRowsIsDrawnToo) {
  for (const int seqlen : {1, 2, 5}) expect_has(demo(seqlen), {"verified"});
}

// The README's caption, the table, the closing sentence and what heads the picture say what the
// recordings hold. Factors hardly depend on the length.
TEST_F(DemoCommandTest, CaptionTableAndRecordingsAgree) {
  const std::string out = demo(2048), readme = contents_of(RINGSCOPE_SOURCE_DIR "/README.md");
  std::smatch caption;
  ASSERT_TRUE(std::regex_search(
      readme, caption,
      std::regex("simulated times, a core for each rank: under a causal mask, contiguous ranks run "
                 "out of work one after another; (.*) share every step evenly and finish (.*) "
                 "times sooner\\]\\(viz/compare.png\\)")));
  const std::string even = caption[1], factor = caption[2];
  EXPECT_EQ(even, "striped, zigzag and fold");
  EXPECT_NE(out.find("times: simulated, "), std::string::npos);
  EXPECT_NE(out.find("could finish " + factor + " times sooner than contiguous"), std::string::npos)
      << out;

  std::vector<viz::Document> documents;
  for (const std::string& partition : kPartitions)
    documents.push_back(document("own_cores/" + partition));
  const viz::Comparison compared =
      viz::compare({&documents[0], &documents[1], &documents[2], &documents[3]});
  EXPECT_NE(compared.remark.find("simulated"), std::string::npos);
  EXPECT_EQ(compared.headline.rfind(
                even + " could finish " + factor + " times sooner than contiguous: ", 0),
            0u)
      << compared.headline;
  const viz::ComparedFigure& wall = compared.figures.at(0);
  ASSERT_EQ(wall.name, "wall time");
  for (std::size_t i = 0; i < kPartitions.size(); ++i) {
    std::smatch row;
    ASSERT_TRUE(std::regex_search(out, row, std::regex("\n" + kPartitions[i] + " .*")));
    EXPECT_NE(row.str().find(fmt::format(" {:.1f} ms ", 1e-6 * wall.values[i])), std::string::npos)
        << row.str();
    if (i == 0) continue;
    EXPECT_EQ(viz::words_of_factor(wall.values[0] / wall.values[i]), factor) << kPartitions[i];
    for (const viz::WorkCell& cell : documents[i].balance.cells)
      EXPECT_NEAR(cell.pairs, documents[i].balance.cells[0].pairs,
                  0.01 * documents[i].balance.cells[0].pairs);
  }
  EXPECT_GT(wall.best, 0);
  // One after another: of contiguous ranks, the next one has a step more.
  const viz::WorkTable& work = documents[0].balance;
  for (int rank = 0; rank < work.ranks; ++rank)
    for (int step = 0; step < work.steps; ++step)
      EXPECT_EQ(work.at(rank, step).pairs > 0, step <= rank) << rank << ' ' << step;
}

}  // namespace
}  // namespace ringscope
