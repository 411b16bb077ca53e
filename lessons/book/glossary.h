// Reads the terms that the lessons introduce, from lessons/glossary.txt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringscope::lessons {

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
const Entry* find_entry(std::string_view term);

}  // namespace ringscope::lessons
