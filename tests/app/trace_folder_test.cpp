// `run --trace DIR/` gives each rank a file that Holistic Trace Analysis reads, all of them or none.
#include <gtest/gtest.h>

#include <regex>

#include "tests/app/program.h"

namespace ringscope {
namespace {

class TraceFolderTest : public ProgramTest {};

// What Holistic Trace Analysis 0.5.0 goes by: the file's first "rank", a stream in the arguments of
// what ran on a device, and names of kernels that begin with nccl and have Kernel in them for
// communication; all others with a stream count as computation.
TEST_F(TraceFolderTest, HasKernelsThatHtaKnows) {
  run_well("run --random --seqlen 256 --backward --mask causal --trace tr/ --out o.npy");
  for (int rank = 0; rank < 4; ++rank) {
    SCOPED_TRACE(rank);
    const std::string file = path("tr/rank" + std::to_string(rank) + ".json");
    const std::string text = contents_of(file);
    std::smatch first;
    ASSERT_TRUE(std::regex_search(text, first, std::regex("\"rank\":\\s+(\\d+)")));
    EXPECT_EQ(first[1], std::to_string(rank));
    const auto json = json_of(text);
    EXPECT_STREQ(json["provenance"]["seed"].GetString(), "0");
    double computing = 0, moving = 0, sent = 0;
    for (const auto& event : json["traceEvents"].GetArray()) {
      EXPECT_EQ(event["pid"].GetInt(), rank);
      if (std::string(event["ph"].GetString()) != "X") continue;
      const std::string cat = event["cat"].GetString();
      if (cat == "send" || cat == "recv") sent += event["dur"].GetDouble();
      if (!event["args"].HasMember("stream")) continue;
      const bool nccl = std::regex_search(event["name"].GetString(), std::regex("^nccl.*Kernel"));
      (nccl ? moving : computing) += event["dur"].GetDouble();
      EXPECT_EQ(cat, nccl ? "kernel" : "compute");
    }
    EXPECT_GT(computing, 0);
    EXPECT_NEAR(moving, sent, 1e-9 * sent + 1e-6);
    EXPECT_GT(moving, 0);
    EXPECT_EQ(run(Strings{"explain", file}).status, 0);
    if (has_viewer() && rank == 1)
      run_well(Strings{"view", file, "--screenshot", "r.png", "--size", "640x400"});
  }
  expect_refused("run --random --seqlen 32 --trace tr/", {"--trace", "not empty"});
}

TEST_F(TraceFolderTest, IsWholeOrNotAtAll) {
  std::filesystem::create_directory(path("full"));
  write_text("full/mine", "kept");
  write_text("file", "kept");
  const auto into = [](const std::string& place) {
    return Strings{"run", "--random", "--seqlen", "32", "--trace", place + "/"};
  };
  for (const char* place : {"full", "file", "not/there"})
    expect_refused(into(place), {"--trace", place, "accepted:"});
  const auto before = files();
  expect_ended(run_after("ulimit -f 1", into("d")), 3, {"d/rank0.json: writing failed"});
  EXPECT_EQ(files(), before);
  std::filesystem::create_directory(path("d"));
  std::filesystem::permissions(path("d"), std::filesystem::perms::owner_all);
  run_well(into("d"));
  EXPECT_EQ(std::filesystem::status(path("d")).permissions(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(std::filesystem::exists(path("d/rank3.json")));
  std::filesystem::create_directory(path("empty"));
  std::filesystem::create_symlink("empty", path("link"));
  run_well(into("link"));
  EXPECT_TRUE(std::filesystem::exists(path("empty/rank3.json")));
}

}  // namespace
}  // namespace ringscope
