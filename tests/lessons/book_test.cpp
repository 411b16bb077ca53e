// Tests the way of a lesson: its source is parsed; its text, code and output come in the order of the source,
// on a page and at a terminal; failed checks are counted, and recordings have their story.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/chrome_trace.h"
#include "lessons/book/ending.h"
#include "lessons/book/lesson.h"
#include "lessons/book/page.h"
#include "lessons/book/terminal.h"
#include "tests/app/program.h"

namespace ringscope::lessons {
namespace {

constexpr const char* kLesson = R"(// # Title
// > One
// > sentence.
//
// Opening.
#include <vector>
namespace ringscope::lessons {
// On a helper.
int helper() {
  // its own comment
  return 1;
}
void lesson_02(Page& page) {
  const int a = helper();
  page.value("a;", a,
             "unit");  // 15 to 16
  //-
  const int hidden = 2;
  //+
  const int b = 3;
  Drawing drawn;
  const int hidden_too = 4;
  page.print(drawn);

  // Prose,
  // two lines.
  for (;;) {
    // deep
  }
  const Guess guess = page.predict("?", "");
}

// after
}  // namespace ringscope::lessons
)";

TEST(Source, ComesApartIntoProseCodeAndCalls) {
  const LessonSource source = parse_lesson(kLesson, 2);
  EXPECT_EQ(source.title, "Title");
  EXPECT_EQ(source.summary, "One sentence.");
  ASSERT_EQ(source.pieces.size(), 6u);
  EXPECT_EQ(source.pieces[0].text, "Opening.\n\nOn a helper.\n");
  EXPECT_EQ(source.pieces[1].text, "int helper() {\n  // its own comment\n  return 1;\n}\n");
  EXPECT_EQ(source.pieces[2].text, "const int a = helper();\n");
  EXPECT_EQ(source.pieces[3].text, "const int b = 3;\n");
  EXPECT_EQ(source.pieces[4].text, "Prose,\ntwo lines.\n");
  EXPECT_EQ(source.pieces[5].text, "for (;;) {\n  // deep\n}\n");
  ASSERT_EQ(source.calls.size(), 3u);
  EXPECT_EQ(source.calls[0].first, 15);
  EXPECT_EQ(source.calls[0].last, 16);
  EXPECT_EQ(source.call_at(16), &source.calls[0]);
  EXPECT_EQ(source.call_at(17), nullptr);
}

TEST(Source, SaysWhatIsMissing) {
  const std::string text = kLesson;
  EXPECT_THROW(parse_lesson(text, 3), std::logic_error);
  EXPECT_THROW(parse_lesson(text.substr(text.find("// Opening")), 2), std::logic_error);
}

TEST(Regions, AreWhatStandsBetweenTheirMarks) {
  const std::string text =
      "a\n  // [one\n  b\n  // [two\n    c\n  // two]\n\n  d\n  // one]\n// [empty\n// empty]\n";
  const Region one = region_in(text, "file", "one");
  EXPECT_EQ(one.text, "b\n  c\n\nd\n");
  EXPECT_EQ(one.first_line, 3);
  EXPECT_EQ(region_in(text, "file", "two").text, "c\n");
  EXPECT_THROW(region_in(text, "file", "empty"), std::logic_error);
  EXPECT_THROW(region_in(text, "file", "none"), std::logic_error);
  EXPECT_THROW(region_in(text + text, "file", "one"), std::logic_error);
}

TEST(Prose, HasBlocksAndSpans) {
  const auto blocks = blocks_of(
      "# Head\nOne\ntwo\n\n    a * b\n\n    c\n\n- item\n  more\n  - inside\n\n  last\n1. first\n"
      "```cpp\n- x\n```\n> quoted\n\n| a | b\\|c |\n|---|---:|\n| 1 | 2 |\n<!-- none\n-->\n"
      "<details><summary>Answer</summary>\n\n42\n</details>\n");
  using Kind = TextBlock::Kind;
  const Kind kinds[] = {Kind::heading, Kind::paragraph, Kind::listing, Kind::item, Kind::item,
                        Kind::listing, Kind::quote,     Kind::table,   Kind::fold};
  ASSERT_EQ(blocks.size(), std::size(kinds));
  for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(blocks[i].kind, kinds[i]) << i;
  EXPECT_EQ(blocks[1].text, "One two");
  EXPECT_EQ(blocks[2].text, "a * b\n\nc\n");
  EXPECT_EQ(blocks[3].text, "item more");
  ASSERT_EQ(blocks[3].inside.size(), 2u);
  EXPECT_EQ(blocks[3].inside[0].text, "inside");
  EXPECT_EQ(blocks[3].inside[1].text, "last");
  EXPECT_EQ(blocks[4].marker, "1.");
  EXPECT_EQ(blocks[5].marker, "cpp");
  EXPECT_EQ(blocks[5].text, "- x\n");
  EXPECT_EQ(blocks[6].inside.at(0).text, "quoted");
  EXPECT_EQ(cells_of(blocks[7].text)[0], (std::vector<std::string>{"a", "b|c"}));
  EXPECT_EQ(blocks[8].text, "Answer");
  EXPECT_EQ(blocks[8].inside.at(0).text, "42");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "> - ";
  EXPECT_EQ(blocks_of(deep).size(), 1u) << "what nests without end is read, too";
  std::string spans;
  for (const TextSpan& span :
       spans_of("a * b, *new term* and `*code*`, **strong**, 2*3*4 [x](y) *open"))
    spans += "<" + span.text + ">";
  EXPECT_EQ(spans, "<a * b, ><new term>< and ><*code*><, ><strong><, 2*3*4 ><x>< *open>");
}

TEST(Cells, KeepWhatIsTheSameEverywhere) {
  EXPECT_EQ(Cell(-1234567).shown, "-1,234,567");
  EXPECT_EQ(Cell(999).shown, "999");
  EXPECT_EQ(Cell(0.123456).shown, "0.1235");
  EXPECT_EQ(bytes(1536).shown, "1.5 KiB");
  EXPECT_EQ(rounding(3e-8, 1e-6).kept, "at most 1e-06");
  EXPECT_EQ(rounding(3e-5, 1e-6).kept, "3.0e-05");
  EXPECT_EQ(rounding(std::nan(""), 1e-6).kept, "nan");
  Table table({"one", "two"});
  EXPECT_THROW(table.row(1), std::logic_error);
}

TEST(GlossaryText, IsReadStrictly) {
  const auto entries =
      parse_glossary("# head\n\nB | 2 | f.h | g\n  text\n  more\n\na | 1 | f.h | h\n  x\n");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].term, "a");
  EXPECT_EQ(entries[1].text, "text\nmore");
  EXPECT_EQ(entries[1].lesson, 2);
  EXPECT_THROW(parse_glossary("a | x | f.h | g\n"), std::logic_error);
  EXPECT_THROW(parse_glossary("a | 1 | f.h\n"), std::logic_error);
  EXPECT_THROW(parse_glossary("  text\n"), std::logic_error);
}

// ---
// A lesson that is told.

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
  page.value("time", Cell("1 s", "\u2026"));
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
  page.value("time", Cell("1 s", "\u2026"));
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
#line 208 "tests/lessons/book_test.cpp"
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

// What a terminal of forty columns shows. With lines to read, somebody reads.
struct Shown {
  std::string text;
  bool stopped = false;
};
Shown shown(const std::string& folder, bool reads = false, std::deque<std::string> lines = {}) {
  Shown shown;
  Console console{[&](std::string_view more) { shown.text += more; }};
  console.width = 40;
  console.colour = reads;
  if (reads)
    console.read_line = [&]() -> std::optional<std::string> {
      if (lines.empty()) return std::nullopt;
      const std::string line = lines.front();
      lines.pop_front();
      return line;
    };
  Terminal terminal(console);
  try {
    tell(lesson_that(woven), folder, &terminal);
  } catch (const ReaderStopped&) {
    shown.stopped = true;
  }
  return shown;
}

TEST(Weaving, APageHasTextCodeAndOutputInOrder) {
  const Told told = tell(lesson_that(woven));
  expect_in_order(told.page,
                  {"# 02 Woven", "Opening", "> **Predict.** How much? (GiB)", "Middle.",
                   "```cpp\nconst int code = 1;\n```",
                   "<summary>Answer: How much?</summary>\n\n**16 GiB**", "- time: **\u2026**",
                   "- **WRONG** This does not", "- **WRONG** Numbers: 1 found, 2 expected",
                   "- **WRONG** Errors: nan found", "./ringscope view runs/lessons/02-name.json",
                   "1. Told.\n\n   ![The timeline, rank 0, step 1](story-name-1.svg)", "Closing."});
  EXPECT_EQ(told.page.find("page."), std::string::npos) << "calls are not listed";
  EXPECT_EQ(told.checks, 4);
  EXPECT_EQ(told.claims, "- This holds\n");
  EXPECT_EQ(told.failed, 3);
}

TEST(Weaving, ATerminalWrapsProseAndAsksNobody) {
  const std::string text = shown("").text;
  expect_in_order(text, {"02 Woven", "Opening", "Predict. How much? (GiB)\n", "const int code = 1;",
                         "Answer: How much?\n", "16 GiB", "time: 1 s", "WRONG This does not",
                         "Told.", "The timeline,", "(story-name-1.svg)", "Closing."});
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(text.find("\na terminal has only forty columns.\n"), std::string::npos) << text;
  std::string table;
  Terminal({[&](std::string_view more) {
    table += more;
  }}).show("| Kᵀ | number |\n|---|---:|\n| one | 1 |\n| a | 1,000 |\n");
  EXPECT_EQ(table,
            "  Kᵀ   number\n"
            "  ───  ──────\n"
            "  one       1\n"
            "  a     1,000\n");
}

TEST(Weaving, AReaderIsAskedAndMayStop) {
  const std::deque<std::string> goes_on(20, "");
  std::deque<std::string> lines = goes_on;
  lines.push_front("8");
  const Shown all = shown("", true, lines);
  EXPECT_FALSE(all.stopped);
  expect_in_order(all.text, {"Your prediction; q: stop. ", "Answer", "You predicted 8."});
  EXPECT_EQ(shown("", true, goes_on).text.find("You predicted"), std::string::npos);
  EXPECT_TRUE(shown("", true, {"q"}).stopped) << "at a question";
  EXPECT_TRUE(shown("", true, {"8", "q"}).stopped) << "at a pause";
  EXPECT_TRUE(shown("", true, {"8"}).stopped) << "gone";
}

TEST(Weaving, RefusesQuestionsWithoutAnswerAndCallsThatStandElsewhere) {
  EXPECT_THROW(tell(lesson_that(never_answered)), std::logic_error);
  EXPECT_THROW(tell(lesson_that(from_elsewhere)), std::logic_error);
}

// A question on paper and its answer.
constexpr const char* kOnPaper = R"(// # On paper
// > A test.
//
// ## On paper
void lesson_02(Page& page) {
  page.predict("Two and two?", "", 4);
  // ## Checks
  page.check("This holds", true);
}
)";
// clang-format off
void on_paper(Page& page) {
#line 6 "lessons/02_woven/lesson.cpp"
  page.predict("Two and two?", "", 4);

  page.check("This holds", true);
}
#line 319 "tests/lessons/book_test.cpp"
// clang-format on

TEST(Weaving, WorksOutEachQuestionOnPaperAndShowsTheIdeaInNumPyInPlaceOfTheChecks) {
  Lesson lesson{2, "02_woven", on_paper, parse_lesson(kOnPaper, 2), ""};
  EXPECT_THROW(tell(lesson), std::logic_error) << "not worked out";
  lesson.worked = {"Count.\n"};
  lesson.python = "print(2 + 2)\n";
  expect_in_order(tell(lesson).page, {"Two and two?", "**4**\n\nCount.\n", "The same in NumPy",
                                      "```python\nprint(2 + 2)\n```"});
  EXPECT_EQ(tell(lesson).page.find("## Checks"), std::string::npos);
  lesson.worked.push_back("Nobody asked.\n");
  EXPECT_THROW(tell(lesson), std::logic_error);
}

TEST(Endings, InEvenStepsNoHopArrivesBeforeItSetsOffAndOnlyVainWaitsAreLeft) {
  Recording failed = small_recording();
  failed.info.base_time_ns = 7;
  const auto add = [&](std::size_t rank, Lane lane, int step, std::int64_t begin,
                       std::int64_t end) {
    TraceEvent event;
    event.lane = lane;
    event.step = step;
    event.begin_ns = begin;
    event.end_ns = end;
    failed.events[rank].push_back(event);
  };
  add(0, Lane::compute, 0, 5, 9);
  add(0, Lane::send, 0, 8, 9);
  add(0, Lane::wait, 1, 9, 1000);
  add(1, Lane::recv, 0, 2, 3);
  add(1, Lane::wait, 1, 3, 20);
  const Recording even = in_even_steps(failed);
  EXPECT_EQ(even.info.base_time_ns, 0);
  ASSERT_EQ(even.events[0].size(), 3u);
  ASSERT_EQ(even.events[1].size(), 1u) << "its wait ended";
  EXPECT_LE(even.events[0][1].begin_ns, even.events[1][0].begin_ns);
  EXPECT_GE(even.events[0][2].begin_ns, even.events[0][0].end_ns);
}

class Recordings : public ProgramTest {};

TEST_F(Recordings, LieWhereTheyWereAskedForWithTheirStory) {
  shown(path("some/where"));
  EXPECT_EQ(files(), (std::set<std::string>{"some", "some/where", "some/where/02-name.json"}));
  const Recording recording = read_chrome_trace(path("some/where/02-name.json"));
  EXPECT_EQ(recording.info.world_size, 2);
  ASSERT_EQ(recording.story.size(), 1u);
  EXPECT_EQ(recording.story[0].text, "Told.");

  write_text("file", "");
  EXPECT_THROW(shown(path("file/below")), InputError);
}

// ---
// Drawings.

// Return what group 1 of `pattern` matches, again and again.
std::vector<std::string> all_of(const std::string& svg, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator match(svg.begin(), svg.end(), regex), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

TEST(Drawings, PartsAreAsLongAsTheirNumbersAndTextsAreOnlyWhereTheyFit) {
  Drawing drawing;
  drawing.heading("Head");
  drawing.strip("", {{0, 60, 0, "wide"}, {60, 60, 1, "empty"}, {60, 62, 2, "too long"}}, "62");
  drawing.strip("", Drawing::stacked({10, 20}, 0.5));
  drawing.strip("", Drawing::cells(2, [](int i) { return std::pair(i, 1 - 2 * i); }));
  drawing.bars("Bars", {"a"}, {4}, 1);
  drawing.key(Drawing::kQuiet, "quiet");
  const std::string svg = drawing.svg("A title");
  EXPECT_EQ(all_of(svg, ">([^<>]+)</t"), (std::vector<std::string>{"A title", "Head", "wide", "62",
                                                                   "Bars", "a", "4.0", "quiet"}));
  std::vector<double> widths;
  for (const std::string& width : all_of(svg, " width=\"([0-9.]+)\" height=\"23.0\""))
    widths.push_back(std::stod(width) + 1.5);
  ASSERT_EQ(widths.size(), 7u);
  EXPECT_NEAR(widths[0] / widths[1], 30, 1);
  EXPECT_NEAR(widths[2] / widths[0], 20.0 / 60, 0.01);
  EXPECT_NEAR(widths[3] / widths[0], 40.0 / 60, 0.01);
  EXPECT_EQ(widths[4], widths[5]);
  const auto fills = all_of(svg, "rx=\"3\" fill=\"([^\"]+)\"");
  EXPECT_EQ(std::count(fills.begin(), fills.end(), fills.back()), 1) << "a colour of its own";
}

}  // namespace
}  // namespace ringscope::lessons
