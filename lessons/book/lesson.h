// The lessons: their sources, parsed into the prose in their comments, the code between, and the places
// of their calls of the page; the glossary; and the files of the project that are built into the
// program. lessons/book/embed.cmake generates those.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringscope::lessons {

class Page;

// A range of lines, counted from 1, with both ends included.
struct Lines {
  int first = 0, last = 0;
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
// Return the heads and texts of the sections "## Head" of a page.
std::vector<std::pair<std::string, std::string>> sections_of(std::string_view page);

struct Lesson {
  int number = 0;
  std::string folder;  // such as 01_naive_attention
  void (*run)(Page&) = nullptr;
  LessonSource source;
  std::string elsewhere;  // Markdown: its section of lessons/elsewhere.txt; what breaks first
  std::vector<std::string> worked = {};  // Markdown: how each question on paper is answered
  std::string python = {};               // its idea in NumPy, from lessons/python
  std::string takeaways = {};            // Markdown: three items

  std::string path() const { return "lessons/" + folder + "/lesson.cpp"; }
  std::string label() const;  // 01
  // Return three hints for a step of the learner's ring (lessons/my_ring), or none for other lessons.
  std::vector<std::string> hints() const;
  // Return the lessons to read before, without those that these build on; and those that build on it.
  const std::vector<int>& needs() const;
  std::vector<int> next() const;
  // Return what else a reader should know, in words, or "".
  std::string prerequisite() const;
  // Return the file that the learner edits: of a step of the ring, in a folder that git ignores. Empty if
  // the lesson has questions on paper and no exercise.
  std::string exercise() const;
};

// Return the lessons in order of their numbers.
std::span<const Lesson> all_lessons();

// Return a lesson. Throw InputError that lists the valid numbers.
const Lesson& lesson_of_number(int number);

// The minutes that a lesson takes. Reading: 200 words per minute, 4 s per line of code, half a minute per
// table; what is folded and the three things at the end don't count. A prediction takes one minute, a
// question on paper three, an exercise 15, and a step of the learner's ring 40.
struct Minutes {
  int reading, predictions, exercise;
};
Minutes minutes_of(const Lesson& lesson);

// An order in which to read some of the lessons, for readers who want one thing. Each lesson comes after
// those that it builds on.
struct Way {
  const char* name;
  const char* aim;
  std::vector<int> lessons;
};

// Return the ways through the lessons. Every lesson is on one of them.
const std::vector<Way>& ways_through();

// ---
// Built-in files.

struct EmbeddedFile {
  const char* path;  // relative to the root of the tree
  const char* text;
};

struct EmbeddedLesson {
  int number;
  const char* folder;
  void (*run)(Page&);
};

std::span<const EmbeddedFile> embedded_files();
std::span<const EmbeddedLesson> embedded_lessons();

// Return the text of a file. Throw std::logic_error if the file is not built in.
std::string_view embedded_text(std::string_view path);

// The text between "// [name" and "// name]" in a built-in file, without its common indentation and
// without the marks of other regions.
struct Region {
  int first_line = 0;
  std::string text;
};

// Return a region of a file's text. Throw std::logic_error if there is none, or more than one.
Region region_in(std::string_view text, const std::string& path, const std::string& name);

// ---
// The terms that the lessons introduce, from lessons/glossary.txt.

struct Entry {
  std::string term;
  int lesson = 0;    // the lesson that introduces the term
  std::string file;  // the file that defines it, relative to the root
  std::string name;  // the text to look for in that file
  std::string text;
};
inline const std::string& name_of(const Entry& entry) { return entry.term; }

// Parse the entries of such a text and sort them by term. Throw std::logic_error that names a wrong
// line.
std::vector<Entry> parse_glossary(std::string_view text);

// Return the entries of lessons/glossary.txt.
const std::vector<Entry>& glossary();

// Find an entry regardless of case, or return null.
const Entry* find_entry(const std::string& term);

}  // namespace ringscope::lessons
