// `ringscope explain` as a program: simulated and real runs with faults on purpose, as text and JSON.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <filesystem>

#include "tests/app/program.h"
#include "tests/core/tools/foreign/pickle_text.h"

namespace ringscope {
namespace {

class ExplainCommandTest : public ProgramTest {
 protected:
  std::string trace() const { return path("trace.json"); }
};

TEST_F(ExplainCommandTest, NamesCauseRankAndTime) {
  const std::string summary = run_well(
      "simulate --gpu H100 --link NVLink4 --world-size 8 --seqlen 131072 --mask causal "
      "--partition zigzag --straggler 5:0.5 --trace " +
      trace());
  expect_has(summary,
             Strings({"largest loss", "Rank 5 is slow, which costs", "(50 % of the wall time)"}));
  const auto json = run_for_json("explain " + trace());
  ASSERT_EQ(json["findings"].Size(), 1u);
  const auto& found = json["findings"][0];
  EXPECT_STREQ(found["cause"].GetString(), "slow-rank");
  EXPECT_EQ(found["rank"].GetInt(), 5);
  EXPECT_NEAR(found["share"].GetDouble(), 0.5, 0.01);
  EXPECT_NEAR(found["ms"].GetDouble(), 0.5 * json["wall_ms"].GetDouble(), 0.5);
  EXPECT_GT(found["confidence"].GetDouble(), 0.5);
  EXPECT_FALSE(found.HasMember("link"));
  expect_has(run_well("explain " + trace()),
             Strings({"1. Rank 5 is slow, which costs", "2.00 times as long as most"}));
  // Cut off among the slices of the last rank.
  std::filesystem::resize_file(trace(), std::filesystem::file_size(trace()) / 5 * 4);
  expect_has(run_well("explain " + trace()), Strings({"is cut off", "so long: slices lack."}));
}

// Other programs may cost a run more than its fault does. Beside forty of them on two cores most runs are
// such, but not all.
constexpr int kMoreRuns = 60;

// One gap between computations may hold the losses before several messages, as where all hops of an
// all-gather start at once; schemes with several hops a step are replayed by their own loops, and
// Ulysses message by message. No cause costs more than the run took.
TEST_F(ExplainCommandTest, RealRunsWithFaultsOnPurpose) {
  const struct {
    const char *scheme, *inject, *cause;
    int rank, status;
    double least_share;
  } cases[] = {{"ring", "straggler@1", "slow-rank", 1, 0, 0},
               {"ring", "slow-rank@2", "slow-rank", 2, 0, 0},
               {"ring", "jitter", "jitter", -1, 0, 0},
               {"ring", "unposted-recv@1:1", "fault", 1, 3, 0},
               {"allgather", "slow-rank@2", "slow-rank", 2, 0, 0.7},
               {"ulysses", "slow-rank@2", "slow-rank", 2, 0, 0.7},
               {"bidirectional", "slow-rank@2", "slow-rank", 2, 0, 0.7},
               {"pass-q", "straggler@2", "slow-rank", 2, 0, 0},
               {"allgather:2", "jitter", "jitter", -1, 0, 0},
               {"mesh:2x2", "straggler@2", "slow-rank", 2, 0, 0},
               {"mesh:2x2", "jitter", "jitter", -1, 0, 0}};
  // Return what explains a run first, where that is not its fault.
  const auto other_cause = [&](const auto& c) -> std::string {
    const ProgramResult run = this->run(
        fmt::format("run --random --world-size 4 --seqlen 256 --heads 4 --head-dim 16 --timeout 1 "
                    "--scheme {} --inject {} --trace {}",
                    c.scheme, c.inject, trace()));
    EXPECT_EQ(run.status, c.status) << run.err;
    if (c.status == 0) expect_has(run.out, Strings({"largest loss"}));
    const auto json = run_for_json("explain " + trace());
    if (json["findings"].Empty()) return "nothing";
    const auto& first = json["findings"][0];
    EXPECT_LE(first["share"].GetDouble(), 1);
    if (first["cause"].GetString() == std::string(c.cause) &&
        (c.rank < 0 || first["rank"].GetInt() == c.rank) &&
        first["share"].GetDouble() >= c.least_share)
      return "";
    return fmt::format("{}, share {}", first["cause"].GetString(), first["share"].GetDouble());
  };
  for (const auto& c : cases) {
    std::string found = other_cause(c);
    for (int more = kMoreRuns; more > 0 && !found.empty(); --more) found = other_cause(c);
    EXPECT_EQ(found, "") << c.scheme << " " << c.inject;
  }
}

// A ring that waits for each hop before it attends is told so, and one that does not is not.
TEST_F(ExplainCommandTest, NamesHopsThatDoNotOverlap) {
  for (const char* inject : {"--inject no-overlap", ""})
    for (const char* size : {"--seqlen 256 --backward", "--seqlen 1024"}) {
      run_well(fmt::format("run --random --world-size 4 --heads 4 --head-dim 16 {} {} --trace {}",
                           size, inject, trace()));
      const auto json = run_for_json("explain " + trace());
      int named = 0;
      for (const auto& finding : json["findings"].GetArray())
        named += finding["cause"].GetString() == std::string("no-overlap");
      EXPECT_EQ(named, *inject == '\0' ? 0 : 1) << size << " " << inject;
    }
}

TEST_F(ExplainCommandTest, NamesTheRankThatAJobHangsFor) {
  using namespace pickles;
  const std::string waits = dump("[0, 1, 2]", 6, {entry(0, "all_reduce", 7, "scheduled")});
  std::filesystem::create_directory(path("dumps"));
  write_text("dumps/_dump_0", waits);
  write_text("dumps/_dump_1", dump("[0, 1, 2]", 6, {}));
  write_text("dumps/_dump_2", waits);
  write_text("dumps/fault.log", "rank 1");
  for (const std::string& files :
       {path("dumps"), path("dumps/_dump_0 ") + path("dumps/_dump_1 ") + path("dumps/_dump_2")}) {
    const auto json = run_for_json("explain " + files);
    ASSERT_EQ(json["findings"].Size(), 1u);
    EXPECT_STREQ(json["findings"][0]["cause"].GetString(), "fault");
    EXPECT_EQ(json["findings"][0]["rank"].GetInt(), 1);
    EXPECT_GE(json["notes"].Size(), 1u);
    expect_has(run_well("explain " + files), Strings({"1. Rank 1 failed. It has nothing pending"}));
  }
  expect_refused("explain " + path("dumps/_dump_0 ") + path("dumps/_dump_0"), {"second dump"});
}

// A folder with a file per rank is one run, whichever of its files is named.
TEST_F(ExplainCommandTest, OneRanksFileStandsForItsRun) {
  const auto explained = [&] {
    run_well(
        "run --random --world-size 4 --seqlen 256 --heads 1 --head-dim 16 --inject straggler@1 "
        "--trace " +
        path("ranks/"));
    return run_for_json("explain " + path("ranks"));
  };
  const auto blames_rank_1 = [](const auto& json) {
    return !json["findings"].Empty() && json["findings"][0].HasMember("rank") &&
           json["findings"][0]["rank"].GetInt() == 1;
  };
  auto whole = explained();
  for (int more = kMoreRuns; more > 0 && !blames_rank_1(whole); --more) whole = explained();
  ASSERT_GE(whole["findings"].Size(), 1u);
  EXPECT_STREQ(whole["findings"][0]["cause"].GetString(), "slow-rank");
  EXPECT_EQ(whole["findings"][0]["rank"].GetInt(), 1);
  for (const std::string& files :
       {path("ranks/rank0.json"), path("ranks/rank2.json ") + path("ranks/rank3.json")}) {
    const auto json = run_for_json("explain " + files);
    EXPECT_EQ(json["wall_ms"].GetDouble(), whole["wall_ms"].GetDouble());
    EXPECT_EQ(json["findings"][0]["ms"].GetDouble(), whole["findings"][0]["ms"].GetDouble());
  }
  std::filesystem::create_directory(path("alone"));
  std::filesystem::copy(path("ranks/rank2.json"), path("alone/rank2.json"));
  expect_refused("explain " + path("alone/rank2.json"), {"rank 2 of 4 alone", "folder"});
}

// Profiles of something else have status 1, and say which names count.
TEST_F(ExplainCommandTest, ProfilesWithoutARing) {
  for (const int rank : {0, 1})
    write_text(
        fmt::format("rank{}.pt.trace.json", rank),
        fmt::format(R"({{"distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": 2}},
                           "traceEvents": [{{"ph": "X", "cat": "kernel", "name": "my_softmax_qk",
                           "ts": 1.0, "dur": 2.0, "args": {{"correlation": 1}}}}]}})",
                    rank));
  for (const auto& [flag, why] : {std::pair{"", "no attention was found by name (flash_fwd,"},
                                  std::pair{" --attention softmax_qk", "no sends and receives"}}) {
    const ProgramResult result =
        run("explain --json " + path("rank0.pt.trace.json ") + path("rank1.pt.trace.json") + flag);
    EXPECT_EQ(result.status, 1) << result.err;
    expect_has(result.out, Strings({"\"ring\":false", why}));
  }
}

}  // namespace
}  // namespace ringscope
