// Every output says where it comes from, and can be made again from that.
#include <gtest/gtest.h>

#include <map>

#include "tests/app/program.h"

namespace ringscope {
namespace {

class ProvenanceTest : public ProgramTest {
 protected:
  static constexpr const char* kPinned = "export SOURCE_DATE_EPOCH=1700000000";
  static constexpr const char* kPinnedTime = "2023-11-14T22:13:20Z";

  std::string run_pinned(const Strings& arguments) const {
    const ProgramResult result = run_after(kPinned, arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }

  // The text of the tEXt chunk that has the keyword Comment, or "".
  std::string comment_of(const std::string& name) const {
    const std::string png = contents_of(path(name));
    const std::size_t at = png.find(std::string("tEXtComment\0", 12));
    if (at == png.npos) return "";
    std::size_t length = 0;
    for (std::size_t i = at - 4; i < at; ++i)
      length = length << 8 | static_cast<unsigned char>(png[i]);
    return png.substr(at + 12, length - 8);
  }
};

// The fields of a line of CSV; quoted ones may hold commas and doubled quotes.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

TEST_F(ProvenanceTest, OfJsonNamesTheCallAndThePinnedTime) {
  for (const std::string call :
       {"run --random --seqlen 64 --seed 7 --trace t.json --json", "explain t.json --json",
        "simulate --seqlen 8192 --world-size 4 --gpu H100 --link NVLink4 --json",
        "plan --seqlen 8192 --world-size 4 --gpu H100 --link NVLink4 --json",
        "positions --seqlen 16 --world-size 2 --json", "info --json"}) {
    const auto json = json_of(run_pinned(call));
    const auto& origin = json["provenance"];
    EXPECT_EQ(origin["command"].GetString(), "ringscope " + call);
    EXPECT_STREQ(origin["time"].GetString(), kPinnedTime);
    EXPECT_STREQ(origin["seed"].GetString(), call.find("--seed 7") == call.npos ? "0" : "7");
    for (const char* key : {"version", "commit", "machine"})
      EXPECT_GT(origin[key].GetStringLength(), 0u) << key;
  }
  const auto trace = json_of(contents_of(path("t.json")));
  EXPECT_STREQ(trace["provenance"]["seed"].GetString(), "7");
  EXPECT_STREQ(trace["provenance"]["time"].GetString(), kPinnedTime);
}

// Bytes that are no text stay in the call, in a form that JSON takes and a shell reads back.
TEST_F(ProvenanceTest, OfAnyBytesIsText) {
  for (const auto& [name, shown] : {std::pair{"a\xff\x01 'b'.npy", R"($'a\xff\x01 \'b\'.npy')"},
                                    {"\xc3\xa9.npy", R"($'\xc3\xa9.npy')"}}) {
    const auto json =
        json_of(run_well(Strings{"run", "--random", "--seqlen", "16", "--json", "--out", name}));
    EXPECT_EQ(json["provenance"]["command"].GetString(),
              "ringscope run --random --seqlen 16 --json --out " + std::string(shown));
  }
}

// What a researcher does: one sweep and its table; then the table's own command gives it again.
TEST_F(ProvenanceTest, OfASweepMakesItAgainToTheByte) {
  run_pinned(
      "simulate --gpu H100 --link NVLink4 --mask causal --csv s.csv --seed 5 --nodes 2 "
      "--between 50,10 --sweep seqlen=8192:32768:*2 world-size=4,8 jitter=0,0.3");
  const std::string csv = contents_of(path("s.csv"));
  std::istringstream lines(csv);
  std::string head, first;
  std::getline(lines, head), std::getline(lines, first);
  const auto names = fields_of(head), values = fields_of(first);
  ASSERT_EQ(names.size(), values.size());
  std::map<std::string, std::string> row;
  for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = values[i];
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"gpu", "H100"}, {"link", "NVLink4"}, {"seed", "5"}, {"time", kPinnedTime}})
    EXPECT_EQ(row[name], value) << name;
  std::filesystem::remove(path("s.csv"));
  const std::string command = row["command"];
  ASSERT_EQ(command.rfind("ringscope ", 0), 0u);
  const ProgramResult again =
      run_words({"/bin/sh", "-c", std::string(kPinned) + " && \"$0\" " + command.substr(10),
                 RINGSCOPE_PROGRAM});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(contents_of(path("s.csv")), csv);
}

TEST_F(ProvenanceTest, OfPictures) {
  if (!has_viewer()) GTEST_SKIP() << "no viewer in this build";
  run_well("run --random --seqlen 64 --trace t.json");
  for (const std::string picture : {"s.png", "s.svg"}) {
    run_pinned(Strings{"view", "t.json", "--screenshot", picture});
    const std::string figure = contents_of(path(picture));
    const std::size_t begin = figure.find("<metadata>");
    expect_has(picture == "s.png" ? comment_of(picture)
                                  : figure.substr(begin, figure.find("</metadata>") - begin),
               {"command: ringscope view t.json", kPinnedTime});
  }
}

}  // namespace
}  // namespace ringscope
