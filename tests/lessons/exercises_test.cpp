// Every lesson has questions on paper, or an exercise whose stub fails and whose solution passes, and
// no stub has a line of its solution. The steps of the ring, solved, run as a ring of the program.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "core/trace/chrome_trace.h"
#include "lessons/book/lesson.h"
#include "tests/app/program.h"

namespace ringscope::lessons {
namespace {

struct Ended {
  int status = -1;
  std::string output;
};

Ended run_exercise(const std::string& program) {
  const std::string path = std::string(RINGSCOPE_BUILD_DIR) + "/lessons/" + program;
  Ended ended;
  std::FILE* const pipe = ::popen(("timeout 20 '" + path + "' 2>&1").c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> part;
  for (std::size_t count; (count = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    ended.output.append(part.data(), count);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
  return ended;
}

TEST(Exercises, EachStubFailsAndEachSolutionPasses) {
  for (const Lesson& lesson : all_lessons()) {
    SCOPED_TRACE(lesson.folder);
    if (lesson.exercise().empty()) {
      EXPECT_NE(lesson.source.text.find("## On paper"), std::string::npos);
      continue;
    }
    if (lesson.exercise().ends_with(".py")) continue;  // tests/python tries these
    const Ended solution = run_exercise("exercise_" + lesson.label() + "_solution");
    EXPECT_EQ(solution.status, 0) << solution.output;
    EXPECT_NE(solution.output.find("solved: all "), std::string::npos) << solution.output;
    EXPECT_EQ(solution.output.find("all 0 hold"), std::string::npos) << "it tests nothing";
    // A stub of the ring's comes after our versions of the steps before it.
    const bool is_step = !lesson.hints().empty();
    const Ended stub = run_exercise("exercise_" + lesson.label() + (is_step ? "_stub" : ""));
    EXPECT_EQ(stub.status, 1) << "has somebody solved it?\n" << stub.output;
    if (is_step) {
      EXPECT_EQ(lesson.hints().size(), 3u);
      EXPECT_EQ(solution.output.find("  score  ") != std::string::npos, lesson.number >= 6)
          << solution.output;
      EXPECT_EQ(solution.output.find("above par"), std::string::npos) << solution.output;
    }
    EXPECT_NE(stub.output.find("not yet: "), std::string::npos) << stub.output;
  }
}

TEST(Exercises, NaturalMistakesAreNamed) {
  const std::pair<const char*, const char*> expected[] = {
      {"04", "WRONG crashes in: 8 rows"},
      {"07", "WRONG a tile that only its last query sees: error: yours "},
      {"09", "finish_hop brought a gradient"}};
  for (const auto& [number, text] : expected) {
    const Ended mistaken = run_exercise("exercise_" + std::string(number) + "_mistaken");
    EXPECT_EQ(mistaken.status, 1) << mistaken.output;
    EXPECT_NE(mistaken.output.find(text), std::string::npos) << mistaken.output;
  }
}

// Return the statements of a header that compute something: neither declarations of its types nor
// heads of loops.
std::set<std::string> statements_of(const std::string& path) {
  std::set<std::string> statements;
  bool in_function = false;
  for (const std::string& line : lines_of(contents_of(RINGSCOPE_SOURCE_DIR "/" + path))) {
    if (line.starts_with("inline ")) in_function = true;
    std::string code = line.substr(0, line.find("//"));
    const std::size_t body = line.starts_with("inline ") ? code.find('{') : 0;
    code = body == std::string::npos ? "" : code.substr(body);
    code.erase(std::remove(code.begin(), code.end(), ' '), code.end());
    const bool ends = code.ends_with(';') || (code.starts_with('{') && code.ends_with('}'));
    if (in_function && ends && code.find_first_of("+-*/%?<>[") != std::string::npos)
      statements.insert(code);
    if (line.starts_with("}")) in_function = false;
  }
  return statements;
}

// What a stub gives away must be nothing that is asked, such as a conversion of types.
TEST(Exercises, NoStubHasALineOfItsSolution) {
  const std::set<std::string> given = {
      "constMatrixzeros(block.k.size(),Row(block.k[0].size()));",  // a gradient of the right size
      "for(inti=consumer;i<512;i+=64)sum+=shared.tile[t%3][i].to_float();",
      "constintj=static_cast<int>(threadIdx.x);", "scores[j]=score;"};
  for (const Lesson& lesson : all_lessons()) {
    const bool is_step = !lesson.hints().empty();
    if (!lesson.exercise().ends_with(".h")) continue;
    const std::set<std::string> solved = statements_of("lessons/solutions/" + lesson.folder + ".h");
    EXPECT_FALSE(solved.empty()) << lesson.folder;
    for (const std::string& line :
         statements_of(is_step ? "lessons/my_ring/" + lesson.folder + ".h" : lesson.exercise()))
      EXPECT_FALSE(solved.contains(line) && !given.contains(line)) << lesson.folder << ": " << line;
  }
}

// The program with our steps as its ring.
class RealRing : public ProgramTest {
 protected:
  const std::string ring_ = std::string(RINGSCOPE_BUILD_DIR) + "/app/ringscope-our-ring";
  const Strings run_ =
      Strings{ring_} +
      "run --backend my_ring --random --seqlen 52 --heads 4 --heads-kv 2 --batch 2 "
      "--head-dim 8 --mask causal --partition zigzag --backward --verify";
  const Strings train_ =
      "train --text text --layers 1 --width 16 --heads 2 --head-dim 8 --hidden 24 --seqlen 30 "
      "--steps 3 --loss-csv";

  // Expect a good end, and a slice for each head of each entry, rank, step and pass, where the project's
  // ring has one for all heads.
  void expect_recorded(const ProgramResult& result, const std::string& trace) const {
    ASSERT_EQ(result.status, 0) << result.err;
    const Recording recording = read_chrome_trace(path(trace));
    Index computed = 0, dropped = 0;
    for (const auto& events : recording.events)
      for (const TraceEvent& event : events) computed += event.lane == Lane::compute;
    for (const auto lost : recording.dropped) dropped += lost;
    EXPECT_EQ(computed, 4 * 2 * 4 * 4 * 2);
    EXPECT_EQ(dropped, 0);
    EXPECT_NE(recording.info.command.find("my_ring"), std::string::npos);
    EXPECT_NE(result.out.find("my_ring on "), std::string::npos);
  }
};

TEST_F(RealRing, IsVerifiedAndRecordedOnThreadsAndProcesses) {
  expect_recorded(run_words(run_ + "--trace t.json"), "t.json");
  run_well("explain t.json");
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  expect_recorded(mpirun(Strings("-np 4") + run_ + "--trace p.json --dtype bf16"), "p.json");
}

TEST_F(RealRing, TrainsAsTheProjectsDoes) {
  write_text("text", std::string(2000, 'a') + contents_of(RINGSCOPE_SOURCE_DIR "/LICENSE"));
  ASSERT_EQ(run_words(Strings{ring_} + train_ + "mine.csv --backend=my_ring").status, 0);
  run_well(train_ + "ours.csv");
  const auto losses = [&](const std::string& file) {
    std::vector<double> all;
    for (const std::string& line : lines_of(contents_of(path(file))))
      if (line[0] != 's') all.push_back(std::stod(line.substr(line.find(',') + 1)));
    return all;
  };
  const std::vector<double> mine = losses("mine.csv"), ours = losses("ours.csv");
  ASSERT_EQ(mine.size(), 3u);
  ASSERT_EQ(ours.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(mine[i], ours[i], 1e-5 * ours[i]);
}

// What a learner's steps do wrong ends the run with one line that says what and where.
TEST_F(RealRing, EndsWhereAStepIsWrong) {
  for (const auto& [mistake, said] : std::vector<std::pair<std::string, Strings>>{
           {"throws", {"threw what is no std::exception"}},
           {"receives first", {"finish_hop() without start_hop()"}},
           {"sends nothing", {"sent 0 bytes"}},
           {"hangs", {"rank 1"}},
           {"a row less", {"returned 12 states, expected were 13"}},
           {"a value more", {"returned 9 values of a row, expected were 8"}},
           {"a row of dV more", {"returned 14 rows of a gradient, expected were 13"}}}) {
    SCOPED_TRACE(mistake);
    ::setenv("RINGSCOPE_MISTAKE", mistake.c_str(), 1);
    expect_ended(run_words(run_ + (mistake == "hangs" ? "--timeout 0.5" : "")), 3, said);
    ::unsetenv("RINGSCOPE_MISTAKE");
  }
}

// The rank that never returns is named, and not one that waits for it.
TEST_F(RealRing, EndsTrainingWhereAStepNeverReturns) {
  write_text("text", contents_of(RINGSCOPE_SOURCE_DIR "/LICENSE"));
  ::setenv("RINGSCOPE_MISTAKE", "hangs", 1);
  expect_ended(run_words(Strings{ring_} + train_ + "mine.csv --backend my_ring --timeout 0.5"), 3,
               {"rank 1", "no progress for 0.5 s", "others wait for it", "in training step 1"});
  ::unsetenv("RINGSCOPE_MISTAKE");
}

TEST_F(RealRing, SaysWhatItIsNot) {
  for (const auto& [flags, why] : {std::pair{"", "--mask: not given"},
                                   {"--mask full", "--mask: 'full'"},
                                   {"--mask causal --scheme ulysses", "--scheme: 'ulysses'"}}) {
    const ProgramResult result =
        run_words(Strings{ring_} + "run --random --backend my_ring" + flags);
    expect_ended(result, 2, {"my_ring", why, "accepted"});
  }
}

}  // namespace
}  // namespace ringscope::lessons
