// Tests `ringscope lesson` as a user types it: its words and flags, recordings and pages, and a
// reader at a terminal.
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
  EXPECT_NE(out.find("Predict:"), std::string::npos);
  EXPECT_NE(out.find("core/attention/naive.cpp, line "), std::string::npos);
  // The question comes before the code that answers it, and that before the answer.
  EXPECT_LT(out.find("Predict: How much memory"), out.find("const double square"));
  EXPECT_LT(out.find("const double square"), out.find("It is 16 GiB."));
}

TEST_F(LessonCommand, SaysWhatIsAccepted) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"lesson", "99"},
                                             {"lesson", "0"},
                                             {"lesson", "first"},
                                             {"lesson", "1", "2"},
                                             {"lesson", "1", "--loud"},
                                             {"lesson", "list", "--check"},
                                             {"lesson", "6", "--no-pause", "--out", "/proc/x"},
                                             {"lesson", "--check"},
                                             {"lesson", "1", "--check", "--page", "-"},
                                             {"lesson", "1", "--hint", "1"},
                                             {"lesson", "3", "--hint", "4"},
                                             {"lesson", "3", "--hint", "1", "--check"},
                                             {"lesson", "3", "--take", "mine"},
                                             {"lesson", "glossary", "no such word"}}) {
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
  EXPECT_EQ(files(), std::set<std::string>{"page.md"}) << "a page records nothing";
}

TEST_F(LessonCommand, ChecksTheLearnersVersion) {
  const ProgramResult result = run({"lesson", "1", "--check"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.out.find("lessons/01_naive_attention/exercise.h"), std::string::npos);
  EXPECT_NE(result.out.find("WRONG two equal keys"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("not yet: 1 of 4 hold"), std::string::npos) << result.out;
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
  // Return 1 or 2 if `first` or `second` comes next, and 0 if neither does.
  int says_either(const std::string& first, const std::string& second) {
    for (;;) {
      const std::size_t a = unread_.find(first), b = unread_.find(second);
      if (a != std::string::npos || b != std::string::npos)
        return (a < b ? says(first) : says(second)) ? (a < b ? 1 : 2) : 0;
      if (!read_more()) return 0;
    }
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

constexpr const char *kPause = "q: stop", *kQuestion = "Enter to skip: ";

TEST_F(LessonCommand, WaitsForAKeyAndJudgesPredictions) {
  AtTerminal reader({"lesson", "1"}, path(""));
  int pauses = 0, questions = 0;
  while (const int what = reader.says_either(kPause, kQuestion)) {
    if (what == 1) {
      ++pauses;
      reader.type(pauses % 2 == 0 ? " " : "\n");
    } else if (++questions == 1) {
      reader.type("many\n");
      ASSERT_TRUE(reader.says("That is no number")) << reader.all();
      ASSERT_TRUE(reader.says(kQuestion));
      reader.type("10\n");
      ASSERT_TRUE(reader.says("You predicted 10: 10 too low, by a factor of 2.")) << reader.all();
    } else {
      reader.type("\n");
      ASSERT_TRUE(reader.says("It is 16 GiB.")) << reader.all();
    }
  }
  EXPECT_EQ(reader.exit_status(), 0) << reader.all();
  EXPECT_GE(pauses, 4);
  EXPECT_EQ(questions, 2);
  EXPECT_NE(reader.all().find("\033["), std::string::npos) << "no colours at a terminal";
  EXPECT_NE(reader.all().find("checks hold."), std::string::npos) << reader.all();
}

TEST_F(LessonCommand, TakesALetterWhereThereAreOptions) {
  AtTerminal reader({"lesson", "6"}, path(""));
  while (reader.says_either(kPause, kQuestion) == 1) reader.type(" ");
  reader.type("7\n");
  ASSERT_TRUE(reader.says("That is not among them.")) << reader.all();
  reader.type("b\n");
  ASSERT_TRUE(reader.says("You predicted rank 1, which is wrong.")) << reader.all();
  AtTerminal draws({"lesson", "7"}, path(""));
  while (draws.says_either(kPause, kQuestion) == 1) draws.type(" ");
  draws.type("####\n");
  ASSERT_TRUE(draws.says("That has other rows.")) << draws.all();
  draws.type("xxxx/##../###./####\n");
  ASSERT_TRUE(draws.says("You drew 3 of 16 cells otherwise.")) << draws.all();
}

TEST_F(LessonCommand, EndsPolitelyWhenTheReaderStops) {
  {
    AtTerminal hasty({"lesson", "1"}, path(""));
    hasty.type("\x04");  // before there is anything to stop
    EXPECT_TRUE(hasty.says("To begin again: ./ringscope lesson 1")) << hasty.all();
    EXPECT_EQ(hasty.exit_status(), 0);
  }
  for (const std::string keys : {"q", "\x04"}) {
    AtTerminal at_pause({"lesson", "1"}, path(""));
    ASSERT_TRUE(at_pause.says(kPause)) << at_pause.all();
    at_pause.type(keys);
    EXPECT_TRUE(at_pause.says("To begin again: ./ringscope lesson 1")) << at_pause.all();
    EXPECT_EQ(at_pause.exit_status(), 0);
  }
  AtTerminal at_question({"lesson", "1"}, path(""));
  while (at_question.says_either(kPause, kQuestion) == 1) at_question.type(" ");
  at_question.type("\x04");  // the end of a terminal's input
  EXPECT_TRUE(at_question.says("To begin again: ./ringscope lesson 1")) << at_question.all();
  EXPECT_EQ(at_question.exit_status(), 0);
}

}  // namespace
}  // namespace ringscope
