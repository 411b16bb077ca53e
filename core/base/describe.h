// Structs that describe themselves. A struct that people set or read has beside it
//
//   template <class S, class F> requires kIs<S, Scenario>
//   void describe(S& scenario, F&& row) {
//     row(MemberRow("jitter", "X", "every computation takes (1 + X x) times as long ({})").in(kDelay),
//         scenario.jitter);
//
// with a row for each member, and what reads and writes the struct goes through the rows: flags with their
// help, man page and completion (app/command_line/flags.h), axes of sweeps and columns of CSV
// (core/tools/sim/sweep.h), JSON and text. A new member is a row and its effect.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/fields.h"
#include "core/base/text.h"

namespace ringscope {

// The numbers from `least` to `most`, and whether the first is among them. `words` say so for real numbers.
struct Range {
  double least = 1, most = std::numeric_limits<double>::infinity();
  bool from_least = true;
  const char* words = "";
};
inline constexpr Range kAbove0 = {0, 1e9, false, "a number above 0, up to 1e9"};
inline constexpr Range kFrom0 = {0, 1e9, true, "a number from 0 to 1e9"};

// The row of a member: its name, "kv-buffers", which is that of the flag and the axis; how help calls a
// value, "N", "FILE" or "block|cyclic"; and its help, in which {} becomes the default, the value before
// anything is read. Without help there is no flag.
struct MemberRow {
  MemberRow(std::string_view a_name, std::string_view a_type, std::string_view a_help = "")
      : name(a_name), type(a_type), help(a_help) {}

  MemberRow& in(const Range& numbers) { return range = numbers, *this; }
  // The member holds so many of what people write.
  MemberRow& times(double so_many) { return unit = so_many, *this; }
  // Its name in JSON and CSV is another: "num_heads".
  MemberRow& as(std::string_view other) { return key = other, *this; }
  // It can be an axis of a sweep.
  MemberRow& swept() { return is_swept = true, *this; }
  // What a text report says of it if it is above 0: "jitter {:g} of hops".
  MemberRow& said(std::string_view by) { return words = by, *this; }
  // An error names only the part that is wrong, so the text is put before it.
  MemberRow& quoted() { return quotes_text = true, *this; }

  std::string_view name, type, help, key, words;
  Range range = {};  // integers may be as large as their type if none is given
  double unit = 1;
  bool is_swept = false, quotes_text = false;
};

template <class S, class T>
concept kIs = std::same_as<std::remove_const_t<S>, T>;

// ---
// Values of members from what people write. Each throws an InputError with the text and what would be
// accepted.

// NaN is never in a range.
double number_in(std::string_view text, const Range& range);
// An integer; an Index is a size, which may end in k, M or G.
template <class T>
T integer_in(std::string_view text, T least, T most) {
  std::optional<T> value = parse_number<T>(text);
  if constexpr (std::is_same_v<T, Index>) value = parse_size(text);
  if (value && *value >= least && *value <= most) return *value;
  throw InputError(fmt::format("'{}' given; accepted: an integer from {} to {}{}", text, least,
                               most,
                               std::is_same_v<T, Index> ? ", or with k, M or G, as in 8k" : ""));
}
template <class T>
T integer_in(std::string_view text, const Range& range) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  const bool is_limited = range.most < static_cast<double>(kLargest);
  return integer_in<T>(text, static_cast<T>(range.least),
                       is_limited ? static_cast<T>(range.most) : kLargest);
}
std::vector<double> numbers_in(std::string_view list, const Range& range);

// Types that say themselves how they are read have a read_value() of their own.
template <class T>
void read_value(T& to, std::string_view text, const MemberRow& row) {
  if constexpr (std::is_same_v<T, std::vector<double>>)
    to = numbers_in(text, row.range);
  else if constexpr (std::is_floating_point_v<T>)
    to = row.unit * number_in(text, row.range);
  else if constexpr (std::is_same_v<T, bool>)
    to = true;
  else if constexpr (std::is_integral_v<T>)
    to = integer_in<T>(text, row.range);
  else if constexpr (requires { T::parse(text); })
    to = T::parse(text);
  else
    to = text;
}

// ---
// Values of members for programs and people.

template <class T>
std::string text_of(const T& value) {
  if constexpr (requires { name_of(value); }) {
    return std::string(name_of(value));
  } else if constexpr (requires { value.name(); }) {
    return value.name();
  } else if constexpr (requires { value.has_value(); }) {
    return value ? text_of(*value) : "";
  } else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string_view>) {
    return fmt::format("{}", value);
  } else {
    std::string list;
    for (const auto& one : value) list += (list.empty() ? "" : ",") + text_of(one);
    return list;
  }
}

// A seed is written as its digits, because readers of JSON take a number for a double of 53 bits.
template <class T>
Json json_of(const T& value) {
  if constexpr (std::is_same_v<T, std::uint64_t>)
    return std::to_string(value);
  else if constexpr (std::is_constructible_v<Json, const T&> && !std::is_enum_v<T>)
    return value;
  else
    return text_of(value);
}

// Return the name as a key of JSON or a column.
std::string key_of(const MemberRow& row);

// ---
// Whole structs.

// Read `text` into the member `name`. Return false if there is none. Throw its InputError behind
// `label`, the flag or setting.
template <class S>
bool read_member(S& object, std::string_view name, std::string_view text,
                 const std::string& label) {
  bool found = false;
  describe(object, [&](const MemberRow& row, auto&& member) {
    if (row.name != name || found) return;
    found = true;
    try {
      read_value(member, text, row);
    } catch (const InputError& error) {
      const std::string quoted = fmt::format("'{}'", text);
      const bool adds = row.quotes_text && !std::string_view(error.what()).starts_with(quoted);
      const std::string said = adds ? fmt::format(" {}: ", quoted) : ": ";
      throw InputError(label + said + error.what(), error.fault());
    }
  });
  return found;
}

// Return the text of the member `name`, or "" if there is none.
template <class S>
std::string text_of_member(const S& object, std::string_view name) {
  std::string text;
  describe(object, [&](const MemberRow& row, const auto& member) {
    if (row.name == name) text = text_of(member);
  });
  return text;
}

// Return a field for each of the rows with these names, or for all rows.
template <class S>
Fields fields_of(const S& object, std::initializer_list<std::string_view> names = {}) {
  Fields fields;
  describe(object, [&](const MemberRow& row, const auto& member) {
    if (names.size() == 0 || std::find(names.begin(), names.end(), row.name) != names.end())
      fields.emplace_back(key_of(row), json_of(member));
  });
  return fields;
}

}  // namespace ringscope
