// Every lesson has an exercise whose stub fails and whose solution passes.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "lessons/book/lesson.h"

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
      EXPECT_NE(solution.output.find("  score  "), std::string::npos) << solution.output;
      EXPECT_EQ(solution.output.find("above par"), std::string::npos) << solution.output;
    }
    EXPECT_NE(stub.output.find("not yet: "), std::string::npos) << stub.output;
  }
}

}  // namespace
}  // namespace ringscope::lessons
