// Every lesson has questions on paper, or an exercise whose stub fails and whose solution passes, and
// no stub has a line of its solution.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

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
      "std::vector<int>group;",
      "constintj=static_cast<int>(threadIdx.x);",
      "scores[j]=score;",
      "constautobits=std::bit_cast<std::uint32_t>(value);"};
  for (const Lesson& lesson : all_lessons()) {
    const bool is_step = !lesson.hints().empty();
    if (lesson.exercise().empty()) continue;
    const std::set<std::string> solved = statements_of("lessons/solutions/" + lesson.folder + ".h");
    EXPECT_FALSE(solved.empty()) << lesson.folder;
    for (const std::string& line :
         statements_of(is_step ? "lessons/my_ring/" + lesson.folder + ".h" : lesson.exercise()))
      EXPECT_FALSE(solved.contains(line) && !given.contains(line)) << lesson.folder << ": " << line;
  }
}

}  // namespace
}  // namespace ringscope::lessons
