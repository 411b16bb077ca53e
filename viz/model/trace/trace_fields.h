// Holds the fields of one event of a trace file and converts them with checks. Whole numbers and
// plain times are converted as they come in, and any other value is kept as text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/trace/chrome_trace_fields.h"
#include "viz/model/trace/trace_json.h"

namespace ringscope::viz {

enum class Field : std::uint8_t {
  ph,
  cat,
  name,
  pid,
  tid,
  ts,
  dur,
  id,
  bp,
  // args of our recordings
  pass,
  step,
  kv_owner,
  pairs,
  flops,
  tiles_full,
  tiles_partial,
  tiles_skipped,
  cpu_us,
  payload,
  bytes,
  src,
  dst,
  flow,
  waiting_for,
  query,
  row_max,
  row_sum,
  lse,
  lse_error,
  // args of metadata
  given_name,
  sort_index,
  // args of PyTorch's profiler
  collective,
  nelems_in,
  nelems_out,
  dtype,
  src_rank,
  dst_rank,
  none
};
inline constexpr std::size_t kFieldCount = static_cast<std::size_t>(Field::none);

// Return the field of this name, or Field::none if the reader ignores it.
Field event_field(std::string_view name);
Field args_field(std::string_view name);

// Return microseconds in JSON's number syntax, exponents included, as nanoseconds rounded to the
// nearest. Return none for anything else and beyond kMaxTraceNs.
std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds);

class EventFields {
 public:
  void clear() { present_ = 0; }
  void set(Field field, JsonToken token, std::string_view text, std::uint64_t at);

  bool has(Field field) const { return (present_ >> static_cast<int>(field) & 1) != 0; }
  // Return the field's byte offset, which is meaningful only if the field is there.
  std::uint64_t at(Field field) const { return value(field).at; }
  // Return the string, or "" if the value is no string.
  std::string_view text_or_empty(Field field) const {
    return has(field) && value(field).token == JsonToken::string
               ? std::string_view(value(field).text)
               : std::string_view();
  }
  bool is_string(Field field) const {
    return has(field) && value(field).token == JsonToken::string;
  }

  // The strict getters throw InputError that names the byte, which is `end` for a missing field.
  std::int64_t integer(Field field, std::int64_t low, std::int64_t high, std::uint64_t end) const;
  // Return nanoseconds, from microseconds >= 0 with at most three decimals.
  std::int64_t time(Field field, std::uint64_t end) const;
  // Return a number, or the value of one of the strings "inf", "-inf", "nan".
  float real(Field field, std::uint64_t end) const;
  template <class T>
  T choice(Field field, T first, T second, std::uint64_t end) const {
    const std::string_view given = string(field, end);
    if (given == name_of(first)) return first;
    if (given == name_of(second)) return second;
    refuse(field, fmt::format("\"{}\" or \"{}\"", name_of(first), name_of(second)));
  }
  std::string_view string(Field field, std::uint64_t end) const;

  // The lenient getters take any spelling, also a string, and return none for an absent field.
  std::optional<std::int64_t> any_integer(Field field) const;
  // Return nanoseconds. Throws InputError if the value is no time or negative.
  std::optional<std::int64_t> any_time(Field field) const;
  // Return the text as the file spells it, also of a number.
  std::string any_text(Field field) const;

  [[noreturn]] void refuse(Field field, std::string_view accepted) const;

 private:
  struct Value {
    JsonToken token = JsonToken::literal;
    bool exact = false;  // `number` is the whole value
    std::int64_t number = 0;
    std::uint64_t at = 0;
    std::string text;  // empty for exact numbers
  };
  const Value& value(Field field) const { return values_[static_cast<std::size_t>(field)]; }
  const Value& present(Field field, std::uint64_t end) const;

  std::uint64_t present_ = 0;
  std::array<Value, kFieldCount> values_;
};
static_assert(kFieldCount <= 64);

}  // namespace ringscope::viz
