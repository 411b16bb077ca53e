// Parsers for short texts that users write: an enumerator's name, a number, parts with separators,
// and tables of words.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
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

// Return the number that all of `text` spells, or none.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Return the parts of `text` between separators, at least one, which may be empty.
std::vector<std::string_view> split(std::string_view text, char separator);

// ---
// Tables are lines of words, with comments after '#'.

inline constexpr Index kMostTableBytes = Index{1} << 20;  // of a file

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
