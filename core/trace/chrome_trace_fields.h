// The fields in a recording's JSON, and their checked conversions. The reader
// (chrome_trace_reader.cpp) builds its events from them.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/trace/event.h"

namespace ringscope {

// The largest distance of a time from 0, and the largest duration. With this bound, a begin plus a
// duration fits in 64 bits, and so does the difference of any two times.
inline constexpr std::int64_t kMaxTraceNs = 4'500'000'000'000'000'000;

// The object or array of the document that the reader is in.
enum class TracePlace : std::uint8_t {
  top,
  distributed,
  ring,
  shape,
  failure,
  list,
  story,
  story_step,
  events,
  event,
  args,
  other
};

// A name that is known in one place of the document.
enum class TraceKey : std::uint8_t {
  distributed_info,
  ring,
  trace_events,
  base_time,
  story,
  backend,
  world_size,
  schema_version,
  partition,
  mask,
  scheme,
  dtype,
  kv_buffers,
  shape,
  clock_offset_ns,
  clock_error_ns,
  dropped_events,
  failure,
  train_step,
  layer,
  layers,
  batch,
  heads,
  heads_kv,
  seqlen,
  head_dim,
  failure_message,
  failure_rank,
  failure_step,
  story_text,
  story_pass,
  story_step,
  story_rank,
  story_lane,
  story_figure,
  ph,
  cat,
  pid,
  tid,
  ts,
  dur,
  args,
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
  none
};
inline constexpr std::size_t kTraceKeyCount = static_cast<std::size_t>(TraceKey::none);

// Return the key of `name` in `place`, or TraceKey::none for a name that the reader passes over.
TraceKey key_of(TracePlace place, std::string_view name);

// Throw an InputError that names byte `at`.
[[noreturn]] void fail_at(std::size_t at, std::string_view complaint);

// A value as the file spells it, and its position.
struct TraceValue {
  enum Kind : std::uint8_t { absent, number, string, object, other };
  Kind kind = absent;
  std::string text;
  std::size_t at = 0;
};

// Return the integer in [low, high] that `value` spells. Throw InputError when it is none.
std::int64_t integer_of(const TraceValue& value, std::string_view name, std::int64_t low,
                        std::int64_t high);

// Values by key. Conversions throw InputError for a wrong type or range. An error about a missing
// value names byte `end`, where the object that should hold it ends.
class TraceFields {
 public:
  void set(TraceKey key, TraceValue::Kind kind, std::string_view text, std::size_t at);
  void clear_event();  // clears the fields of an event and its args

  bool has(TraceKey key) const { return value(key).kind != TraceValue::absent; }
  bool is_object(TraceKey key) const { return value(key).kind == TraceValue::object; }
  std::size_t at(TraceKey key) const { return value(key).at; }
  // Return the key's string, or "" when its value is not a string.
  std::string_view text_or_empty(TraceKey key) const;

  std::string string(TraceKey key, std::size_t end) const;
  std::int64_t integer(TraceKey key, std::int64_t low, std::int64_t high, std::size_t end) const;
  // Return microseconds with at most three decimals as nanoseconds in [low, kMaxTraceNs].
  std::int64_t nanoseconds(TraceKey key, std::int64_t low, std::size_t end) const;
  // Return a float given as a number or as one of the strings "inf", "-inf", "nan".
  float real(TraceKey key, std::size_t end) const;
  // Return whichever of `first` and `second` the value names.
  template <class T>
  T choice(TraceKey key, T first, T second, std::size_t end) const {
    const TraceValue& given = present(key, end);
    if (given.kind == TraceValue::string && given.text == name_of(first)) return first;
    if (given.kind == TraceValue::string && given.text == name_of(second)) return second;
    refuse(key, fmt::format("\"{}\" or \"{}\"", name_of(first), name_of(second)));
  }
  // Throw InputError for the key's value. `accepted` says what would have been accepted.
  [[noreturn]] void refuse(TraceKey key, std::string_view accepted) const;

 private:
  const TraceValue& value(TraceKey key) const { return values_[static_cast<std::size_t>(key)]; }
  const TraceValue& present(TraceKey key, std::size_t end) const;

  std::array<TraceValue, kTraceKeyCount> values_;
};

// Return the number of KV buffers that the recorded run's blocks rotated through, or 0 if it is not
// given. Throw InputError as the conversions do.
int kv_buffers_of(const TraceFields& fields, std::size_t end);

// Return the step and layer of the training run that was recorded, if they are given. Throw
// InputError as the conversions do.
std::optional<RecordedLayer> training_of(const TraceFields& fields, std::size_t end);

// Return how the recorded run failed, if it did, from the object that is the value of "failure".
// Throw InputError as the conversions do.
std::optional<RunEnd> failure_of(const TraceFields& fields, int world_size, std::size_t end);

}  // namespace ringscope
