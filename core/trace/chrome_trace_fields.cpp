#include "core/trace/chrome_trace_fields.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "core/base/error.h"

namespace ringscope {
namespace {

struct KeyName {
  TraceKey key;
  TracePlace place;
  std::string_view name;
};

constexpr KeyName kTraceKeys[] = {
    {TraceKey::distributed_info, TracePlace::top, "distributedInfo"},
    {TraceKey::ring, TracePlace::top, "ring"},
    {TraceKey::trace_events, TracePlace::top, "traceEvents"},
    {TraceKey::base_time, TracePlace::top, "baseTimeNanoseconds"},
    {TraceKey::story, TracePlace::top, "story"},
    {TraceKey::backend, TracePlace::distributed, "backend"},
    {TraceKey::world_size, TracePlace::distributed, "world_size"},
    {TraceKey::schema_version, TracePlace::ring, "schema_version"},
    {TraceKey::partition, TracePlace::ring, "partition"},
    {TraceKey::mask, TracePlace::ring, "mask"},
    {TraceKey::scheme, TracePlace::ring, "scheme"},
    {TraceKey::dtype, TracePlace::ring, "dtype"},
    {TraceKey::kv_buffers, TracePlace::ring, "kv_buffers"},
    {TraceKey::shape, TracePlace::ring, "shape"},
    {TraceKey::clock_offset_ns, TracePlace::ring, "clock_offset_ns"},
    {TraceKey::clock_error_ns, TracePlace::ring, "clock_error_ns"},
    {TraceKey::dropped_events, TracePlace::ring, "dropped_events"},
    {TraceKey::failure, TracePlace::ring, "failure"},
    {TraceKey::train_step, TracePlace::ring, "train_step"},
    {TraceKey::layer, TracePlace::ring, "layer"},
    {TraceKey::layers, TracePlace::ring, "layers"},
    {TraceKey::batch, TracePlace::shape, "batch"},
    {TraceKey::heads, TracePlace::shape, "num_heads"},
    {TraceKey::heads_kv, TracePlace::shape, "num_heads_kv"},
    {TraceKey::seqlen, TracePlace::shape, "seqlen"},
    {TraceKey::head_dim, TracePlace::shape, "head_dim"},
    {TraceKey::failure_message, TracePlace::failure, "message"},
    {TraceKey::failure_rank, TracePlace::failure, "rank"},
    {TraceKey::failure_step, TracePlace::failure, "step"},
    {TraceKey::story_text, TracePlace::story_step, "text"},
    {TraceKey::story_pass, TracePlace::story_step, "pass"},
    {TraceKey::story_step, TracePlace::story_step, "step"},
    {TraceKey::story_rank, TracePlace::story_step, "rank"},
    {TraceKey::story_lane, TracePlace::story_step, "lane"},
    {TraceKey::story_figure, TracePlace::story_step, "figure"},
    {TraceKey::ph, TracePlace::event, "ph"},
    {TraceKey::cat, TracePlace::event, "cat"},
    {TraceKey::pid, TracePlace::event, "pid"},
    {TraceKey::tid, TracePlace::event, "tid"},
    {TraceKey::ts, TracePlace::event, "ts"},
    {TraceKey::dur, TracePlace::event, "dur"},
    {TraceKey::args, TracePlace::event, "args"},
    {TraceKey::pass, TracePlace::args, "pass"},
    {TraceKey::step, TracePlace::args, "step"},
    {TraceKey::kv_owner, TracePlace::args, "kv_owner"},
    {TraceKey::pairs, TracePlace::args, "pairs"},
    {TraceKey::flops, TracePlace::args, "flops"},
    {TraceKey::tiles_full, TracePlace::args, "tiles_full"},
    {TraceKey::tiles_partial, TracePlace::args, "tiles_partial"},
    {TraceKey::tiles_skipped, TracePlace::args, "tiles_skipped"},
    {TraceKey::cpu_us, TracePlace::args, "cpu_us"},
    {TraceKey::payload, TracePlace::args, "payload"},
    {TraceKey::bytes, TracePlace::args, "bytes"},
    {TraceKey::src, TracePlace::args, "src"},
    {TraceKey::dst, TracePlace::args, "dst"},
    {TraceKey::flow, TracePlace::args, "flow"},
    {TraceKey::waiting_for, TracePlace::args, "waiting_for"},
    {TraceKey::query, TracePlace::args, "query"},
    {TraceKey::row_max, TracePlace::args, "row_max"},
    {TraceKey::row_sum, TracePlace::args, "row_sum"},
    {TraceKey::lse, TracePlace::args, "lse"},
    {TraceKey::lse_error, TracePlace::args, "lse_error"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kTraceKeys); ++i)
    if (static_cast<std::size_t>(kTraceKeys[i].key) != i) return false;
  return true;
}
static_assert(std::size(kTraceKeys) == kTraceKeyCount && in_order());

std::string_view name_of(TraceKey key) { return kTraceKeys[static_cast<std::size_t>(key)].name; }

// Return the value for a message, on one line and not too long.
std::string shown(const TraceValue& value) {
  if (value.kind >= TraceValue::object) return "another kind of value";
  std::string result;
  for (const char c : value.text.substr(0, 40)) result += c >= ' ' && c <= '~' ? c : '?';
  if (value.text.size() > 40) result += "...";
  return value.kind == TraceValue::string ? '"' + result + '"' : result;
}

[[noreturn]] void refuse_value(const TraceValue& value, std::string_view name,
                               std::string_view accepted) {
  fail_at(value.at, fmt::format("{} given for {}; {} accepted", shown(value), name, accepted));
}

// Read all of `text` as one number of type T. Return false when it is not one.
template <class T>
bool read_all(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Read microseconds within kMaxTraceNs, in whole nanoseconds. Return false when `text` is not that.
bool read_microseconds(std::string_view text, std::int64_t& ns) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const std::size_t point = std::min(text.find('.'), text.size());
  std::int64_t whole = 0, part = 0;
  if (!read_all(text.substr(0, point), whole) || whole >= kMaxTraceNs / 1000) return false;
  if (point < text.size()) {
    std::string decimals(text.substr(point + 1));
    if (decimals.size() > 3) return false;
    decimals.resize(3, '0');
    if (!read_all(decimals, part)) return false;
  }
  ns = whole * 1000 + part;
  if (negative) ns = -ns;
  return true;
}

}  // namespace

TraceKey key_of(TracePlace place, std::string_view name) {
  for (std::size_t i = 0; i < kTraceKeyCount; ++i)
    if (kTraceKeys[i].place == place && kTraceKeys[i].name == name) return static_cast<TraceKey>(i);
  return TraceKey::none;
}

void fail_at(std::size_t at, std::string_view complaint) {
  throw InputError(fmt::format("byte {}: {}", at, complaint));
}

std::int64_t integer_of(const TraceValue& value, std::string_view name, std::int64_t low,
                        std::int64_t high) {
  std::int64_t result = 0;
  if (value.kind != TraceValue::number || !read_all(value.text, result) || result < low ||
      result > high)
    refuse_value(
        value, name,
        low == high ? fmt::format("{}", low) : fmt::format("an integer from {} to {}", low, high));
  return result;
}

void TraceFields::set(TraceKey key, TraceValue::Kind kind, std::string_view text, std::size_t at) {
  TraceValue& value = values_[static_cast<std::size_t>(key)];
  value.kind = kind;
  value.text.assign(text);
  value.at = at;
}

void TraceFields::clear_event() {
  for (std::size_t i = static_cast<std::size_t>(TraceKey::ph); i < kTraceKeyCount; ++i)
    values_[i].kind = TraceValue::absent;
}

const TraceValue& TraceFields::present(TraceKey key, std::size_t end) const {
  if (value(key).kind == TraceValue::absent) fail_at(end, fmt::format("{} missing", name_of(key)));
  return value(key);
}

void TraceFields::refuse(TraceKey key, std::string_view accepted) const {
  refuse_value(value(key), name_of(key), accepted);
}

std::string_view TraceFields::text_or_empty(TraceKey key) const {
  const TraceValue& given = value(key);
  return given.kind == TraceValue::string ? std::string_view(given.text) : std::string_view();
}

std::string TraceFields::string(TraceKey key, std::size_t end) const {
  const TraceValue& given = present(key, end);
  if (given.kind != TraceValue::string) refuse(key, "a string");
  return given.text;
}

std::int64_t TraceFields::integer(TraceKey key, std::int64_t low, std::int64_t high,
                                  std::size_t end) const {
  return integer_of(present(key, end), name_of(key), low, high);
}

std::int64_t TraceFields::nanoseconds(TraceKey key, std::int64_t low, std::size_t end) const {
  const TraceValue& given = present(key, end);
  std::int64_t ns = 0;
  if (given.kind != TraceValue::number || !read_microseconds(given.text, ns) || ns < low)
    refuse(key, fmt::format("microseconds with up to 3 decimals from {} to {}", low / 1000,
                            kMaxTraceNs / 1000));
  return ns;
}

float TraceFields::real(TraceKey key, std::size_t end) const {
  const TraceValue& given = present(key, end);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (given.kind == TraceValue::string) {
    if (given.text == "inf") return kInfinity;
    if (given.text == "-inf") return -kInfinity;
    if (given.text == "nan") return std::numeric_limits<float>::quiet_NaN();
  }
  float result = 0;
  if (given.kind != TraceValue::number || !read_all(given.text, result))
    refuse(key, "a number in the range of f32, \"inf\", \"-inf\" or \"nan\"");
  return result;
}

int kv_buffers_of(const TraceFields& fields, std::size_t end) {
  constexpr int kMost = std::numeric_limits<int>::max();
  return fields.has(TraceKey::kv_buffers)
             ? static_cast<int>(fields.integer(TraceKey::kv_buffers, 1, kMost, end))
             : 0;
}

std::optional<RecordedLayer> training_of(const TraceFields& fields, std::size_t end) {
  if (!fields.has(TraceKey::train_step)) return std::nullopt;
  constexpr int kMost = std::numeric_limits<int>::max();
  RecordedLayer training{.train_step = fields.integer(TraceKey::train_step, 1, INT64_MAX, end)};
  training.layers = static_cast<std::int32_t>(fields.integer(TraceKey::layers, 1, kMost, end));
  training.layer =
      static_cast<std::int32_t>(fields.integer(TraceKey::layer, 0, training.layers - 1, end));
  return training;
}

std::optional<RunEnd> failure_of(const TraceFields& fields, int world_size, std::size_t end) {
  if (!fields.has(TraceKey::failure)) return std::nullopt;
  if (!fields.is_object(TraceKey::failure)) fields.refuse(TraceKey::failure, "an object");
  const auto below_world_size = [&](TraceKey key) {
    return fields.has(key) ? static_cast<int>(fields.integer(key, 0, world_size - 1, end)) : -1;
  };
  return RunEnd{fields.string(TraceKey::failure_message, end),
                below_world_size(TraceKey::failure_rank), below_world_size(TraceKey::failure_step)};
}

}  // namespace ringscope
