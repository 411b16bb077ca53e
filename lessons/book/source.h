// A lesson's source text, taken apart: the prose in its comments, the code between, and where its
// calls of the page stand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringscope::lessons {

// Lines are counted from 1; both ends are included.
struct Lines {
  int first = 0;
  int last = 0;

  bool contains(int line) const { return first <= line && line <= last; }
};

struct Piece {
  enum class Kind { prose, code };
  Kind kind;
  int line;          // where it begins
  std::string text;  // prose: Markdown. code: without the indentation of the lesson's function
};

struct LessonSource {
  std::string text;     // all of it
  std::string title;    // the first line, "// # Title"
  std::string summary;  // then "// > One sentence"
  std::vector<Piece> pieces;
  std::vector<Lines> calls;  // statements that call the page
  int line_count = 0;

  // The call that `line` belongs to; null when it belongs to none.
  const Lines* call_at(int line) const;
};

// Throws std::logic_error naming what is missing: a title, a summary, the function lesson_NN.
LessonSource parse_lesson(std::string_view text, int number);

std::vector<std::string> lines_of(std::string_view text);

}  // namespace ringscope::lessons
