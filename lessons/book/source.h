// Parses a lesson's source text into the prose in its comments, the code between, and the places of
// its calls of the page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringscope::lessons {

// A range of lines, counted from 1, with both ends included.
struct Lines {
  int first = 0;
  int last = 0;

  bool contains(int line) const { return first <= line && line <= last; }
};

struct Piece {
  enum class Kind { prose, code };
  Kind kind;
  int line;          // first line
  std::string text;  // prose: Markdown; code: without the indentation of the lesson's function
};

struct LessonSource {
  std::string text;     // the whole text
  std::string title;    // from the first line, "// # Title"
  std::string summary;  // from the next lines, "// > One sentence"
  std::vector<Piece> pieces;
  std::vector<Lines> calls;  // statements that call the page
  int line_count = 0;

  // Return the call that `line` belongs to, or null if there is none.
  const Lines* call_at(int line) const;
};

// Throw std::logic_error naming what is missing: a title, a summary, the function lesson_NN.
LessonSource parse_lesson(std::string_view text, int number);

std::vector<std::string> lines_of(std::string_view text);

}  // namespace ringscope::lessons
