// bench/published as a program: its score on the project's own measurements, files that it does not
// know, and files that are wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/app/program.h"

namespace ringscope {
namespace published_test {

constexpr const char* kRuns = RINGSCOPE_SOURCE_DIR "/bench/published/runs.csv";
constexpr const char* kHeader =
    "source,hardware,link,world_size,seqlen,batch,heads,kv_heads,head_dim,dtype,mask,pass,scheme,"
    "metric,value,note\n";

class Published : public ProgramTest {
 protected:
  std::string file(const std::string& text) const {
    write_text("in.csv", text);
    return path("in.csv");
  }
  ProgramResult run(const Strings& arguments) const {
    return run_words(Strings{RINGSCOPE_PUBLISHED} + arguments);
  }
  ProgramResult run_on(const std::string& csv, const Strings& more = {}) const {
    return run(Strings{"--csv", csv} + more);
  }
  // Return the table of every row as the page of a file has it, cell by cell.
  std::vector<std::vector<std::string>> rows_of(const std::string& csv) const {
    const ProgramResult ended = run_on(csv, {"--page", path("page.md")});
    EXPECT_EQ(ended.status, 0) << ended.err;
    const std::string page = contents_of(path("page.md"));
    std::istringstream table(page.substr(page.find("## Every row")));
    std::vector<std::vector<std::string>> rows;
    for (std::string line; std::getline(table, line);) {
      std::vector<std::string>& cells = rows.emplace_back();
      for (std::size_t at = 0, end = 0; (end = line.find(" |", at)) != line.npos; at = end + 2)
        cells.push_back(line.substr(std::min(at + (at == 0 ? 2 : 1), end), end - at - 1));
    }
    rows.erase(rows.begin(), rows.begin() + 4);  // the headline and the head
    return rows;
  }
};

struct LastLine {
  double mape = -1;
  int right = -1, pairs = -1;
};

LastLine last_line(const std::string& out) {
  LastLine line;
  const std::size_t at = out.rfind('\n', out.size() - 2);
  const std::string last = out.substr(at == out.npos ? 0 : at + 1);
  int length = 0;
  std::sscanf(last.c_str(), "MAPE %lf %%, %d of %d pairs ranked as published\n%n", &line.mape,
              &line.right, &line.pairs, &length);
  EXPECT_EQ(static_cast<std::size_t>(length), last.size()) << last;
  return line;
}

TEST_F(Published, PredictsWhatWasMeasured) {
  const ProgramResult ended = run({});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const LastLine line = last_line(ended.out);
  EXPECT_LE(line.mape, 10);
  EXPECT_GT(line.mape, 0);
  EXPECT_GE(line.right, 0.95 * line.pairs);
  EXPECT_GT(line.pairs, 500);
  EXPECT_EQ(run_on(kRuns).out, ended.out);
}

// The last line again from the rows, and the rows that were fitted on: they fit, and do not count.
TEST_F(Published, CountsNoRowThatItWasFittedOn) {
  double sum = 0;
  int predicted = 0, fitted = 0;
  for (const std::vector<std::string>& row : rows_of(kRuns)) {
    const double error = std::abs(std::stod(row.at(9)) / std::stod(row.at(8)) - 1);
    const std::string use = row.at(11);
    if (use.empty()) {
      sum += error;
      ++predicted;
    } else if (use == "fitted") {
      ++fitted;
      EXPECT_LE(error, 0.15) << row[0];
    }
  }
  // Four digits of each figure are printed, and one of the mean.
  EXPECT_NEAR(last_line(run_on(kRuns).out).mape, 100 * sum / predicted, 0.06);
  EXPECT_GT(predicted, 300);
  EXPECT_GT(fitted, 20);
}

// Machines, schemes, masks and metrics that nobody has heard of, and figures left out.
TEST_F(Published, TakesWhatItDoesNotKnow) {
  const std::string text =
      std::string(kHeader) +
      "\"a, \"\"b\"\"\",8xQ9,,8,65536,,32,,,,causal,fwd,new ring,ms,12,\r\n"
      "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,fwd,zigzag ring,ms,10,\n"
      "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,fwd,contiguous ring,ms,20,\n"
      "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,fwd,ulysses 8,ms,,no value\n"
      "s,8xQ9,?,8,65536,1,32,8,128,bf16,causal,fwd,allgather,parsecs,3,\n"
      "s,1024xQ9,?,1024,1048576,1,32,8,128,bf16,full,fwd+bwd,ulysses 8 x ring 128,s,1,\n"
      "s,64xH100,?,64,524288,1,64,8,128,bf16,varlen_full,bwd,striped,TFLOP/s/GPU,100,\n"
      "s,4xH100,?,4,3,1,1,1,1,bf16,causal+documents (3 segments),fwd,zigzag,us,1,";
  const auto rows = rows_of(file(text));
  EXPECT_EQ(rows.size(), 6u);
  for (const std::vector<std::string>& row : rows) EXPECT_GT(std::stod(row.at(9)), 0);
  const ProgramResult ended = run_on(path("in.csv"));
  EXPECT_NE(ended.out.find("| a, \"b\" | 1 |"), ended.out.npos) << ended.out;
  const LastLine line = last_line(ended.out);
  EXPECT_EQ(line.pairs, 1);
  EXPECT_EQ(line.right, 1);  // contiguous is slower
}

TEST_F(Published, RefusesWhatIsNoMeasurement) {
  const std::string row = "s,8xH100,?,8,65536,1,32,8,128,bf16,causal,fwd,zigzag,ms,1,\n";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = row;
    return kHeader + changed.replace(changed.find(from), from.size(), to);
  };
  const std::pair<std::string, const char*> refused[] = {
      {"", "header"},
      {kHeader, "no row"},
      {"a,b\n1,2\n", "header"},
      {kHeader + std::string("1,2,3\n"), "line 2"},
      {with(",8,65536", ",0,65536"), "world_size"},
      {with(",8,65536", ",99999,65536"), "world_size"},
      {with("65536", "-3"), "seqlen"},
      {with("65536", "99999999999999999999"), "seqlen"},
      {with("65536", ""), "seqlen"},
      {with("65536", "1e9"), "seqlen"},
      {with(",32,8,128", ",4,8,128"), "kv_heads"},
      {with("ms,1", "ms,nan"), "value"},
      {with("ms,1", "ms,-1"), "value"},
      {with("ms,1", "ms,inf"), "value"},
      {with("zigzag", "\"zigzag"), "quote"},
      {std::string(100, '\0'), "header"},
  };
  for (const auto& [text, named] : refused) {
    const ProgramResult ended = run_on(file(text));
    EXPECT_EQ(ended.status, 2) << text;
    EXPECT_EQ(ended.out, "");
    EXPECT_NE(ended.err.find(named), ended.err.npos) << ended.err;
    EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << ended.err;
  }
  EXPECT_EQ(run_on(path("none.csv")).status, 2);
  EXPECT_EQ(run_on("/").status, 2);
  EXPECT_EQ(run("--cvs x").status, 2);
}

// What a row says and nobody knows is told.
TEST_F(Published, NamesWhatItDoesNotKnow) {
  const std::string begin = kHeader + std::string("x,8xH100,,8,65536,1,32,8,128,bf16,causal,");
  const ProgramResult pass = run_on(file(begin + "sideways,ring,ms,9,\n"));
  EXPECT_EQ(pass.status, 0);
  EXPECT_NE(pass.out.find("line 2, no such pass: sideways."), std::string::npos) << pass.out;
  const ProgramResult scheme = run_on(file(begin + "fwd,wormhole,ms,9,\n"));
  EXPECT_NE(scheme.out.find("Schemes of 1 rows are not known"), std::string::npos) << scheme.out;
  EXPECT_EQ(run_on(file(begin + "fwd,ring,ms,9,\n")).out.find("not known"), std::string::npos);
}

TEST_F(Published, WritesThePageThatIsThere) {
  ASSERT_EQ(run({"--page", path("page.md")}).status, 0);
  EXPECT_TRUE(contents_of(path("page.md")) ==
              contents_of(RINGSCOPE_SOURCE_DIR "/bench/published/scoreboard.md"))
      << "write it with: build/release/bench/published --page bench/published/scoreboard.md";
}

}  // namespace published_test
}  // namespace ringscope
