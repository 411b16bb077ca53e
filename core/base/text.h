// Reading an enumerator by the name that name_of() gives it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace ringscope {

// The value among `all` whose name is `text`. Throws InputError that lists the accepted names.
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
// Tables that users write: lines of words, with comments after '#'.

// The whole file, of at most 1 MiB. `kind` is what a message names as accepted, such as "file of a
// topology". Throws InputError that names `path`.
std::string read_table(const std::string& path, const std::string& kind);

// Calls f(line), without its end, for every line of `text`.
template <class F>
void for_each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// What stands before a '#', split at blanks.
std::vector<std::string> words_of(std::string_view line);

}  // namespace ringscope
