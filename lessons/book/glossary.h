// The terms that the lessons introduce, from lessons/glossary.txt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringscope::lessons {

struct Entry {
  std::string term;
  int lesson = 0;    // that introduces it
  std::string file;  // that defines it, from the root
  std::string name;  // what to look for in that file
  std::string text;
};

// Entries of a text of that form, sorted by term. Throws std::logic_error naming the line that is
// wrong.
std::vector<Entry> parse_glossary(std::string_view text);

// That of lessons/glossary.txt.
const std::vector<Entry>& glossary();

// Without regard to case; null when there is none.
const Entry* find_entry(std::string_view term);

}  // namespace ringscope::lessons
