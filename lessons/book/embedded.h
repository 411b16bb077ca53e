// Files of the project that are built into the program: the lessons' sources, whatever they list
// regions of, and the glossary. Made by lessons/book/embed.cmake.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ringscope::lessons {

class Page;

struct EmbeddedFile {
  const char* path;  // from the root of the tree
  const char* text;
};

struct EmbeddedLesson {
  int number;
  const char* folder;
  void (*run)(Page&);
};

// Generated.
std::span<const EmbeddedFile> embedded_files();
std::span<const EmbeddedLesson> embedded_lessons();

// Throws std::logic_error when it is not built in.
std::string_view embedded_text(std::string_view path);

// What stands between "// [name" and "// name]" in a file that is built in, without its common
// indentation and without the marks of other regions.
struct Region {
  std::string path;
  int first_line = 0;
  std::string text;
};

// Throws std::logic_error when there is no such region, or more than one.
Region region_of(const std::string& path, const std::string& name);
// The same in any text; `path` names it.
Region region_in(std::string_view text, const std::string& path, const std::string& name);

}  // namespace ringscope::lessons
