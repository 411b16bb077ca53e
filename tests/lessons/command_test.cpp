// Tests `ringscope lesson` as a user types it: its words and flags, recordings and pages, and a
// reader at a terminal.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "lessons/book/lesson.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

class LessonCommand : public ProgramTest {};

TEST_F(LessonCommand, ListsTheLessons) {
  const std::string out = run_well({"lesson", "list"});
  EXPECT_EQ(out, run_well({"lesson"}));
  for (const lessons::Lesson& lesson : lessons::all_lessons())
    EXPECT_NE(out.find(lesson.source.title), std::string::npos) << out;
}

TEST_F(LessonCommand, TellsOneWithoutPauseWhereNobodyReads) {
  const std::string out = run_well({"lesson", "1", "--no-pause"});
  EXPECT_EQ(out.find('\033'), std::string::npos) << "colours in a file";
  EXPECT_NE(out.find("checks hold."), std::string::npos) << out;
  EXPECT_NE(out.find("Predict. "), std::string::npos);
  EXPECT_NE(out.find("core/attention/naive.cpp, line "), std::string::npos) << out;
  // The question comes before the code that answers it, and that before the answer.
  EXPECT_LT(out.find("Predict. How much memory"), out.find("const double square"));
  EXPECT_LT(out.find("const double square"), out.find("16 GiB\n"));
}

TEST_F(LessonCommand, SaysWhatIsAccepted) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"lesson", "99"},
                                             {"lesson", "-1"},
                                             {"lesson", "first"},
                                             {"lesson", "1", "2"},
                                             {"lesson", "1", "--loud"},
                                             {"lesson", "list", "--check"},
                                             {"lesson", "6", "--no-pause", "--out", "/proc/x"},
                                             {"lesson", "--check"},
                                             {"lesson", "1", "--check", "--page", "-"},
                                             {"lesson", "18", "--check"},
                                             {"lesson", "1", "--hint", "1"},
                                             {"lesson", "3", "--hint", "4"},
                                             {"lesson", "3", "--hint", "1", "--check"},
                                             {"lesson", "3", "--take", "mine"},
                                             {"lesson", "3", "--python"},
                                             {"lesson", "1", "--check", "--python"},
                                             {"lesson", "glossary", "no such word"},
                                             {"lesson", "challenge", "plan"}}) {
    const ProgramResult result = run(words);
    EXPECT_EQ(result.status, 2) << testing::PrintToString(words);
    expect_one_line(result);
    EXPECT_NE(result.err.find("accepted"), std::string::npos) << result.err;
  }
}

TEST_F(LessonCommand, EndsWhereNobodyCanHearIt) {
  const ProgramResult result = run({"lesson", "1", "--no-pause"}, "/dev/full");
  EXPECT_EQ(result.status, 3);
  expect_one_line(result);
}

TEST_F(LessonCommand, WritesPages) {
  run_well({"lesson", "1", "--page", "page.md"});
  EXPECT_EQ(contents_of(path("page.md")),
            contents_of(RINGSCOPE_SOURCE_DIR "/lessons/01_naive_attention/README.md"));
  EXPECT_TRUE(
      run_well({"lesson", "glossary", "--page", "-"}).starts_with("<!-- Made from glossary"));
  EXPECT_TRUE(run_well({"lesson", "--page", "-"}).starts_with("<!-- Made by"));
  EXPECT_EQ(files(), (std::set<std::string>{"page.md", "softmax.svg"})) << "a page records nothing";
}

TEST_F(LessonCommand, ChecksTheLearnersVersion) {
  const ProgramResult result = run({"lesson", "1", "--check"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.out.find("lessons/01_naive_attention/exercise.h"), std::string::npos);
  EXPECT_NE(result.out.find("WRONG two equal keys"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("not yet: 1 of 4 hold"), std::string::npos) << result.out;
  const ProgramResult in_python = run({"lesson", "5", "--check"});
  EXPECT_EQ(in_python.status, 1) << in_python.err;
  for (const char* const said :
       {"lessons/05_many_ranks/exercise.py", "WRONG rows_of(1, 10, 4)", "not yet: 2 of 19 hold"})
    EXPECT_NE(in_python.out.find(said), std::string::npos) << in_python.out;
}

TEST_F(LessonCommand, GivesHints) {
  EXPECT_NE(run_well({"lesson", "6", "--hint", "2"}).find("Start the hop before"),
            std::string::npos);
}

TEST_F(LessonCommand, ShowsAGlossaryEntry) {
  EXPECT_NE(run_well({"lesson", "glossary", "Memory", "Wall"}).find("memory wall"),
            std::string::npos);
}

// Runs the program at a terminal of its own, and reads its output until it asks for something.
class AtTerminal {
 public:
  explicit AtTerminal(const std::vector<std::string>& arguments, const std::string& folder) {
    std::vector<std::string> words{RINGSCOPE_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    winsize size{};
    size.ws_col = 60;
    size.ws_row = 40;
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      ::setenv("TERM", "xterm", 1);
      ::unsetenv("NO_COLOR");
      if (::chdir(folder.c_str()) == 0) ::execv(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~AtTerminal() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    if (terminal_ >= 0) ::close(terminal_);
  }

  // Read up to `what`. Return false if the program ended, or half a minute passed, without saying
  // it.
  bool says(const std::string& what) {
    std::size_t found;
    while ((found = unread_.find(what)) == std::string::npos)
      if (!read_more()) return false;
    unread_.erase(0, found + what.size());
    return true;
  }
  void type(const std::string& keys) {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Return -1 if the program had to be killed because it said nothing for half a minute.
  int exit_status() {
    while (read_more()) {
    }
    if (!gone_) ::kill(child_, SIGKILL);
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const std::string& all() const { return all_; }

 private:
  bool read_more() {
    pollfd ready{terminal_, POLLIN, 0};
    if (::poll(&ready, 1, 30000) != 1) return false;
    char part[4096];
    const ssize_t count = ::read(terminal_, part, sizeof part);
    gone_ = count <= 0;  // EIO: the program has gone
    if (gone_) return false;
    unread_.append(part, static_cast<std::size_t>(count));
    all_.append(part, static_cast<std::size_t>(count));
    return true;
  }

  int terminal_ = -1;
  pid_t child_ = -1;
  bool gone_ = false;
  std::string unread_, all_;
};

constexpr const char *kStop = "q: stop. ", *kAgain = "To begin again: ./ringscope lesson 1";

TEST_F(LessonCommand, WaitsForTheReaderAndShowsTheirPredictions) {
  AtTerminal reader({"lesson", "1"}, path(""));
  for (int i = 0; reader.says(kStop); ++i) reader.type(fmt::format("guess {}\n", i));
  EXPECT_EQ(reader.exit_status(), 0) << reader.all();
  const std::string all = reader.all();
  const auto count = [&all](const std::string& what) {
    int found = 0;
    for (std::size_t at = 0; (at = all.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_GE(count("Enter: go on"), 4) << all;
  EXPECT_EQ(count("Your prediction"), 4) << all;
  EXPECT_EQ(count("You predicted guess "), 4) << all;
  EXPECT_LT(all.find("Your prediction"), all.find("You predicted guess "));
  EXPECT_NE(all.find("\033["), std::string::npos) << "no colours at a terminal";
  EXPECT_NE(all.find("checks hold."), std::string::npos) << all;
}

TEST_F(LessonCommand, EndsPolitelyWhenTheReaderStops) {
  for (const std::string keys : {"q\n", "\x04"}) {  // the second is the end of a terminal's input
    AtTerminal at_pause({"lesson", "1"}, path(""));
    ASSERT_TRUE(at_pause.says("Enter: go on")) << at_pause.all();
    ASSERT_TRUE(at_pause.says(kStop)) << at_pause.all();
    at_pause.type(keys);
    EXPECT_TRUE(at_pause.says(kAgain)) << at_pause.all();
    EXPECT_EQ(at_pause.exit_status(), 0);
  }
  AtTerminal hasty({"lesson", "1"}, path(""));
  hasty.type("\x04");  // before there is anything to stop
  EXPECT_TRUE(hasty.says(kAgain)) << hasty.all();
  EXPECT_EQ(hasty.exit_status(), 0);
}

}  // namespace
}  // namespace ringscope
