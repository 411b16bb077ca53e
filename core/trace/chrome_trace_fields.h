// The fields that a recording's JSON is made of, and their checked conversions: what the reader in
// chrome_trace_reader.cpp collects its events from.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/trace/event.h"

namespace ringscope {

// No time may be further from 0 and no length longer: then a begin plus a length fits in 64 bits,
// and so does the distance of any two times.
inline constexpr std::int64_t kMaxTraceNs = 4'500'000'000'000'000'000;

// Which object or array of the document the reader is in.
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

// One name in one place.
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

// TraceKey::none for a name that the reader passes over.
TraceKey key_of(TracePlace place, std::string_view name);

// Throws InputError that names the byte.
[[noreturn]] void fail_at(std::size_t at, std::string_view complaint);

// A value as the file spells it, and where.
struct TraceValue {
  enum Kind : std::uint8_t { absent, number, string, object, other };
  Kind kind = absent;
  std::string text;
  std::size_t at = 0;
};

// The integer in [low, high] that `value` spells.
std::int64_t integer_of(const TraceValue& value, std::string_view name, std::int64_t low,
                        std::int64_t high);

// Values by key. The conversions throw InputError for a wrong type or range; `end`, where the
// object that should hold them ends, is where a missing one is missed.
class TraceFields {
 public:
  void set(TraceKey key, TraceValue::Kind kind, std::string_view text, std::size_t at);
  void clear_event();  // forgets the fields of an event and its args

  bool has(TraceKey key) const { return value(key).kind != TraceValue::absent; }
  bool is_object(TraceKey key) const { return value(key).kind == TraceValue::object; }
  std::size_t at(TraceKey key) const { return value(key).at; }
  // "" for what is not a string.
  std::string_view text_or_empty(TraceKey key) const;

  std::string string(TraceKey key, std::size_t end) const;
  std::int64_t integer(TraceKey key, std::int64_t low, std::int64_t high, std::size_t end) const;
  // Microseconds with at most three decimals; in [low, kMaxTraceNs].
  std::int64_t nanoseconds(TraceKey key, std::int64_t low, std::size_t end) const;
  // A number, or one of the strings "inf", "-inf", "nan".
  float real(TraceKey key, std::size_t end) const;
  // One of two, by name.
  template <class T>
  T choice(TraceKey key, T first, T second, std::size_t end) const {
    const TraceValue& given = present(key, end);
    if (given.kind == TraceValue::string && given.text == name_of(first)) return first;
    if (given.kind == TraceValue::string && given.text == name_of(second)) return second;
    refuse(key, fmt::format("\"{}\" or \"{}\"", name_of(first), name_of(second)));
  }
  // Throws InputError for the key's value; `accepted` is what would have been.
  [[noreturn]] void refuse(TraceKey key, std::string_view accepted) const;

 private:
  const TraceValue& value(TraceKey key) const { return values_[static_cast<std::size_t>(key)]; }
  const TraceValue& present(TraceKey key, std::size_t end) const;

  std::array<TraceValue, kTraceKeyCount> values_;
};

// How many KV buffers the recorded run's blocks took turns in; 0 when that is not said. Throws
// InputError as the conversions do.
int kv_buffers_of(const TraceFields& fields, std::size_t end);

// Which step and layer of a training run was recorded; none where that is not said. Throws InputError
// as the conversions do.
std::optional<RecordedLayer> training_of(const TraceFields& fields, std::size_t end);

// How the recorded run failed, if it did: "failure" is then the key's value, and its fields are those
// of an object. Throws InputError as the conversions do.
std::optional<RunEnd> failure_of(const TraceFields& fields, int world_size, std::size_t end);

}  // namespace ringscope
