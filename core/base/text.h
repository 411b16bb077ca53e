// Parsers for short texts that users write: a name, a number, parts with separators, tables of
// words. And numbers written for users, with their units.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/names.h"

namespace ringscope {

// Return "ring, allgather": the name_of() of every value.
template <class Values>
std::string names_of_all(const Values& all) {
  std::string names;
  for (const auto& value : all) names += (names.empty() ? "" : ", ") + std::string(name_of(value));
  return names;
}

// Return the value among `all` whose name_of() is `text`. Throw an InputError that lists the names.
template <class Values>
auto parse_name(std::string_view text, const Values& all) {
  for (const auto value : all)
    if (text == name_of(value)) return value;
  throw InputError("'" + std::string(text) + "' given; accepted: " + names_of_all(all));
}

// Return the storage type that `text` names, as above.
inline DType parse_dtype(std::string_view text) { return parse_name(text, kAllDTypes); }

// Return the number that the whole of `text` spells, or none if it spells none that T holds. A
// floating-point number may be infinite or NaN.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Return the size in `text`, which may end in k, M or G for 2^10, 2^20 or 2^30: "8k" is 8,192. Where a
// power of two begins with so many thousands, it is meant: "131k" is 131,072, as "128k" is.
std::optional<std::int64_t> parse_size(std::string_view text);

// Return the parts of `text` between separators, at least one, which may be empty.
std::vector<std::string_view> split(std::string_view text, char separator);

// Return a hash (FNV-1a, over whole numbers) by which processes see that they hold the same.
template <class Numbers>
std::uint64_t hash_of(const Numbers& numbers) {
  std::uint64_t hash = 14695981039346656037u;
  for (const auto number : numbers)
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 1099511628211u;
  return hash;
}

// ---
// Tables are lines of words, with comments after '#'.

// Return the whole file, which may have at most 1 MiB. `kind` is what a message names as accepted,
// such as "file of a mask". Throw an InputError that names `path`.
std::string read_table(const std::string& path, const std::string& kind);

// Call f(part) for every part of `text` that ends at `separator` or at the end. A text that ends
// with `separator` has no empty part after it.
template <class F>
void for_each_part(std::string_view text, char separator, F&& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Call f(line) for every line of `text`, without its line end.
template <class F>
void for_each_line(std::string_view text, F&& f) {
  for_each_part(text, '\n', f);
}

// Return the words of `line` before any '#', split at blanks.
std::vector<std::string> words_of(std::string_view line);
// Return `text` as a message shows it, on one line: '?' for bytes that can't be shown, and "..." for what is
// beyond `most` of them.
std::string printable(std::string_view text, std::size_t most = std::string_view::npos);
// Return whether a message can quote a word on one line, and what it says where not.
bool can_be_quoted(std::string_view word);
inline constexpr const char* kNotQuotable =
    "a word with characters that can not be shown; accepted: letters, digits and signs, without "
    "quotes or backslashes";

// Return the text as a field of CSV: in quotes where it must be.
std::string csv_field(const std::string& text);

// ---
// Numbers for people.

// Return "12.34 ms", in s, ms, us or ns.
std::string seconds_text(double seconds);
// Return "12.3 MiB", in powers of 1024, as memory is measured.
std::string bytes_text(double bytes);
// Return "1.23 GiB", from KiB to GiB with two decimals.
std::string gib_text(double bytes);
// Return "1 rank", "2 ranks".
std::string count_text(Index count, std::string_view what);
// Return "rank 3", "ranks 0 to 2 and 5" for sorted numbers.
std::string numbers_text(std::string_view what, const std::vector<int>& numbers);

// Return bytes as the text that data in pages is written in (RFC 4648).
std::string base64(std::string_view bytes);

// Return `page` with each {{KEY}} replaced by its value, which is not searched for keys.
std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace ringscope
