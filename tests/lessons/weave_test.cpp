// Tells this file's own lesson to a page and to a terminal. Tests that text, code and output come
// in the order of its source, that failed checks are counted, and that recordings have their story.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <stdexcept>
#include <string>

#include "core/base/error.h"
#include "core/trace/chrome_trace.h"
#include "lessons/book/markdown_writer.h"
#include "lessons/book/page.h"
#include "lessons/book/terminal_writer.h"
#include "tests/app/program.h"

namespace ringscope::lessons {
namespace {

// The text of a lessons/02_woven/lesson.cpp. The code that runs is woven() below, line by line.
constexpr const char* kText = R"(// # Woven
// > A test.
//
// Opening, long enough to be wrapped where a terminal has only forty columns.
void lesson_02(Page& page) {
  const Guess guess = page.predict("How much?", "GiB");
  // Middle.
  const int code = 1;
  page.answer(guess, 16);
  page.value("time", seconds(1));
  page.check("This holds", true);
  page.check("This does not", false);
  page.equal("Numbers", 1, 2);
  page.at_most("Errors", std::nan(""), 1);
  page.trace(recording, {{.text = "Told.", .step = 1, .rank = 0}}, "name");
  // Closing.
}
)";

Recording small_recording() {
  Recording recording;
  recording.info.world_size = 2;
  recording.info.clock_offset_ns = recording.info.clock_error_ns = {0, 0};
  recording.events.resize(2);
  recording.dropped = {0, 0};
  return recording;
}

// clang-format off
void woven(Page& page) {
#line 6 "lessons/02_woven/lesson.cpp"
  const Guess guess = page.predict("How much?", "GiB");


  page.answer(guess, 16);
  page.value("time", seconds(1));
  page.check("This holds", true);
  page.check("This does not", false);
  page.equal("Numbers", 1, 2);
  page.at_most("Errors", std::nan(""), 1);
  StoryStep step; step.text = "Told."; step.step = 1; step.rank = 0; page.trace(small_recording(), {step}, "name");
}
void never_answered(Page& page) {
#line 6 "lessons/02_woven/lesson.cpp"
  page.predict("How much?", "GiB");
}
void from_elsewhere(Page& page) {
#line 8 "lessons/02_woven/lesson.cpp"
  page.check("on a line of code", true);
}
#line 72 "tests/lessons/weave_test.cpp"
// clang-format on

Lesson lesson_that(void (*run)(Page&)) { return {2, "02_woven", run, parse_lesson(kText, 2), ""}; }

// Expect all of `parts` in `text`, in this order.
void expect_in_order(const std::string& text, const std::vector<std::string>& parts) {
  std::size_t at = 0;
  for (const std::string& part : parts) {
    const std::size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << "'" << part << "' is not next in\n" << text;
    at = found + part.size();
  }
}

struct FakeConsole : Console {
  std::string text;
  bool reads = false, colours = false;
  int columns = 40;
  int keys = 1000;  // then the reader stops
  std::deque<std::string> lines;

  void write(std::string_view more) override { text += more; }
  int width() const override { return columns; }
  int height() const override { return 24; }
  bool colour() const override { return colours; }
  bool somebody_reads() const override { return reads; }
  bool wait_for_key() override { return keys-- > 0; }
  std::optional<std::string> read_line() override {
    if (lines.empty()) return std::nullopt;
    const std::string line = lines.front();
    lines.pop_front();
    return line;
  }
};

TEST(Weaving, APageHasTextCodeAndOutputInOrder) {
  const Lesson lesson = lesson_that(woven);
  int failed = 0;
  const std::string page = page_of(lesson, failed);
  expect_in_order(
      page,
      {"# 02 Woven", "Opening", "> **Predict.** How much? (GiB)", "Middle.",
       "```cpp\nconst int code = 1;\n```", "<summary>Answer: How much?</summary>\n\n**16 GiB**",
       "- time: **\u2026**", "- ✓ This holds", "- **WRONG** This does not",
       "- **WRONG** Numbers: 1 found, 2 expected", "- **WRONG** Errors: nan found",
       "./ringscope view runs/lessons/02-name.json",
       "1. Told.\n\n   ![The timeline, rank 0, step 1](story-name-1.svg)", "Closing."});
  EXPECT_EQ(page.find("page."), std::string::npos) << "calls are not listed";
  EXPECT_EQ(failed, 3);
}

TEST(Weaving, ATerminalWrapsProseAndAsksNobody) {
  const Lesson lesson = lesson_that(woven);
  FakeConsole console;
  const Told told = tell_at(console, lesson, "");
  EXPECT_EQ(told.checks, 4);
  EXPECT_EQ(told.failed, 3);
  expect_in_order(console.text,
                  {"Lesson 2: Woven", "Opening", "Predict: How much? (GiB)\n",
                   "const int code = 1;", "It is 16 GiB.\n", "time: 1 s", "ok    This holds",
                   "WRONG This does not", "Closing.", "3 of 4 checks failed."});
  EXPECT_EQ(console.text.find('\033'), std::string::npos);
  EXPECT_NE(console.text.find("\na terminal has only forty columns.\n"), std::string::npos)
      << console.text;
  for (const std::string& line : lines_of(wrapped_text(console, kText, "    ")))
    EXPECT_LE(columns_of(line), 40) << line;
}

TEST(Weaving, AReaderIsAskedAndMayStop) {
  const Lesson lesson = lesson_that(woven);
  FakeConsole console;
  console.reads = console.colours = true;
  console.lines = {"8"};
  tell_at(console, lesson, "");
  expect_in_order(console.text, {"A number, or Enter to skip: ",
                                 "You predicted 8: 8 too low, by a factor of 2."});
  for (const char* line : {"q", ""}) {
    FakeConsole again;
    again.reads = true;
    again.keys = 0;
    again.lines = {line};
    EXPECT_THROW(tell_at(again, lesson, ""), ReaderStopped) << "at a question, or at a pause";
  }
}

TEST(Weaving, RefusesQuestionsWithoutAnswerAndCallsThatStandElsewhere) {
  int failed = 0;
  const Lesson never = lesson_that(never_answered), elsewhere = lesson_that(from_elsewhere);
  EXPECT_THROW(page_of(never, failed), std::logic_error);
  EXPECT_THROW(page_of(elsewhere, failed), std::logic_error);
}

TEST(Columns, AreCountedWithoutStyle) {
  EXPECT_EQ(columns_of("Kᵀ ≤ x"), 6);
  EXPECT_EQ(columns_of("\033[1;36mab\033[0mc"), 3);
}

class Recordings : public ProgramTest {};

TEST_F(Recordings, LieWhereTheyWereAskedForWithTheirStory) {
  const Lesson lesson = lesson_that(woven);
  FakeConsole console;
  tell_at(console, lesson, path("some/where"));
  EXPECT_EQ(files(), (std::set<std::string>{"some", "some/where", "some/where/02-name.json"}));
  const Recording recording = read_chrome_trace(path("some/where/02-name.json"));
  EXPECT_EQ(recording.info.world_size, 2);
  ASSERT_EQ(recording.story.size(), 1u);
  EXPECT_EQ(recording.story[0].text, "Told.");

  write_text("file", "");
  EXPECT_THROW(tell_at(console, lesson, path("file/below")), InputError);
}

}  // namespace
}  // namespace ringscope::lessons
