// The functions that a lesson calls. A lesson is one function in lessons/NN_name/lesson.cpp, and
// its comments are the text. Every call knows its own line, so the page first shows the prose and
// code above that line that it has not shown yet, in the file's order, and then what the call
// reports. The calls themselves are not listed. All of it is written as Markdown, once: for the page in
// the lesson's folder, for the site, and for a reader at a terminal.
//
// Each call must be a statement of its own in the lesson's function, never in a loop or a lambda.
// Otherwise it throws std::logic_error.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/math.h"
#include "core/trace/event.h"
#include "lessons/book/drawing.h"

namespace ringscope::lessons {

struct Lesson;
class Terminal;

// A number that a lesson shows. Whatever differs between machines (times, rounding errors) is shown to
// the reader who runs the lesson, but left out of pages and tests.
struct Cell {
  std::string shown;  // to the reader who runs the lesson
  std::string kept;   // on the page

  Cell(std::string text) : shown(text), kept(std::move(text)) {}
  Cell(const char* text) : Cell(std::string(text)) {}
  Cell(std::integral auto value) : Cell(with_commas(static_cast<Index>(value))) {}
  Cell(double value);  // four significant digits; whole numbers below 1e15 in full
  Cell(std::string shown_text, std::string kept_text)
      : shown(std::move(shown_text)), kept(std::move(kept_text)) {}

  static std::string with_commas(Index value);  // 12,345
};

Cell fixed(double value, int decimals);
Cell percent(double share, int decimals = 1);  // 0.5 is 50.0 %
Cell bytes(double count);                      // 512 bytes, 1.5 KiB, 64 GiB
// A rounding error. The page says "at most BOUND"; a larger error, or NaN, makes the page stale.
Cell rounding(double error, double bound);

struct Table {
  explicit Table(std::vector<std::string> its_head) : head(std::move(its_head)) {}

  // Add a row with as many cells as the head. Throw std::logic_error for any other number.
  template <class... Values>
  void row(const Values&... values) {
    add({Cell(values)...});
  }
  void add(std::vector<Cell> cells);

  std::vector<std::string> head;
  std::vector<std::vector<Cell>> rows;
};

// Write a small matrix row by row as text, with `columns` values per line.
std::string matrix(const std::vector<double>& values, std::size_t columns, int decimals);
// Write a few numbers in one line: "0.09, 0.24, 0.67".
std::string numbers(const std::vector<double>& values, int decimals = 2);

// ---
// The page.

// A question that was asked.
struct Guess {
  std::size_t number = 0;  // index among the lesson's questions
};

// The place of a call. It is the part of std::source_location that is needed, because clang 14 does
// not support that.
struct At {
  const char* file;
  int line;

  static At current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Return a step of a story: a figure to look at, or a ring step, a rank and a lane in the timeline; -1
// stands for all.
inline StoryStep scene(std::string text, Figure figure, int step = -1) {
  return {.text = std::move(text), .step = step, .figure = figure};
}
inline StoryStep scene(std::string text, int step, int rank = -1, std::optional<Lane> lane = {},
                       std::optional<Pass> pass = {}) {
  return {std::move(text), pass, step, rank, lane, {}};
}

// A picture that a page shows beside a paragraph of a recording's story.
struct StoryPicture {
  std::string file;  // beside the page
  Recording recording;
  int paragraph = 0;  // from 0
};

struct Told {
  std::string page;                             // Markdown
  std::map<std::string, std::string> drawings;  // SVG, by the file beside the page
  std::vector<StoryPicture> pictures;
  std::string claims;  // Markdown: what was checked and holds
  int checks = 0;
  int failed = 0;
};

class Page {
 public:
  Page(const Lesson& lesson, std::string trace_folder, Terminal* reader)
      : lesson_(lesson), trace_folder_(std::move(trace_folder)), reader_(reader) {}
  Told tell();

  // Ask for a number. `unit` follows it ("GiB"; "" for a plain count). Call answer() after the code
  // that computes the number.
  Guess predict(const std::string& question, const std::string& unit, At at = At::current());
  void answer(const Guess& guess, const Cell& actual, At at = At::current());
  // Ask and answer at once if no code stands between.
  void predict(const std::string& question, const std::string& unit, const Cell& actual,
               At at = At::current());
  // Ask for one of the options, or for all of them in order, and answer at once: letters from a on.
  void choose(const std::string& question, const std::vector<std::string>& options,
              const std::string& letters, At at = At::current());
  // Ask for a drawing, and answer at once: `cells` has # for a marked one and . for another, and / ends
  // a row.
  void draw(const std::string& question, const std::string& cells, At at = At::current());

  // Show "name: value unit".
  void value(const std::string& name, const Cell& value, const std::string& unit = "",
             At at = At::current());
  void table(const Table& table, At at = At::current());
  // Show text unchanged, such as that of matrix().
  void print(const std::string& text, At at = At::current());

  // State a claim, as a full sentence without a dot. The lesson fails if it does not hold.
  void check(const std::string& claim, bool holds, At at = At::current());
  // Claim that two values are equal, and show both if they differ.
  void equal(const std::string& claim, const Cell& found, const Cell& expected,
             At at = At::current());
  // Claim that error <= bound. A NaN fails.
  void at_most(const std::string& claim, double error, double bound, At at = At::current());

  // List what the project's file `path` has between the lines "// [name" and "// name]".
  void region(const std::string& path, const std::string& name, At at = At::current());

  // Write the recording for the viewer, with its story. `name` distinguishes several recordings of
  // one lesson.
  void trace(Recording recording, std::vector<StoryStep> story, const std::string& name = "",
             At at = At::current());

  // Show a PNG or SVG from the lesson's folder, or a drawing, which is written there with the page.
  void picture(const std::string& file, const std::string& caption, At at = At::current());
  void picture(const std::string& file, const std::string& caption, const Drawing& drawing,
               At at = At::current());

 private:
  struct Asked {
    std::string question, unit;
    std::string prediction;  // as the reader typed it
    bool answered = false;
  };

  void show_until(const At& at);
  void show_until(int line);
  void prose(const std::string& markdown);
  void paragraph(const std::string& text);
  void item(const std::string& text);
  void fold(const Guess& guess, const std::string& answer);
  void judge(const std::string& claim, bool holds, const std::string& details, const At& at);
  const std::string& seen(const Cell& cell) const { return reader_ ? cell.shown : cell.kept; }

  const Lesson& lesson_;
  std::string trace_folder_;
  Terminal* reader_;
  std::size_t shown_ = 0;  // number of pieces
  std::vector<Asked> asked_;
  bool in_list_ = false, just_asked_ = false, on_paper_ = false;
  std::size_t worked_ = 0;  // number of questions on paper that were answered
  Told told_;
};

// Tell `lesson`. Recordings go to `trace_folder`, which is made if missing, or nowhere if it is
// empty. `reader` sees all of it as it comes, with what differs between machines. Throw what the
// lesson throws, std::logic_error if it calls the page from a forbidden place, InputError if
// recordings can't be written there, and ReaderStopped.
Told tell(const Lesson& lesson, const std::string& trace_folder = "", Terminal* reader = nullptr);

// Return lessons/README.md, lessons/glossary.md and lessons/checks.md, which runs all lessons; and a
// lesson's section of the last.
std::string contents_page();
std::string checks_page();
std::string claims_of(const Lesson& lesson, const Told& told);
std::string glossary_page();

}  // namespace ringscope::lessons
