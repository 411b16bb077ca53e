// Parsers for short texts that users write: an enumerator's name, and tables of words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace ringscope {

// Return the value among `all` whose name_of() is `text`. Throw an InputError that lists the names.
template <class E, std::size_t N>
E parse_name(std::string_view text, const E (&all)[N]) {
  std::string accepted;
  for (const E value : all) {
    if (text == name_of(value)) return value;
    accepted += (accepted.empty() ? "" : ", ") + std::string(name_of(value));
  }
  throw InputError("'" + std::string(text) + "' given; accepted: " + accepted);
}

// ---
// Tables are lines of words, with comments after '#'.

// Return the whole file, which may have at most 1 MiB. `kind` is what a message names as accepted,
// such as "file of a topology". Throw an InputError that names `path`.
std::string read_table(const std::string& path, const std::string& kind);

// Call f(line) for every line of `text`, without its line end.
template <class F>
void for_each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Return the words of `line` before any '#', split at blanks.
std::vector<std::string> words_of(std::string_view line);

}  // namespace ringscope
