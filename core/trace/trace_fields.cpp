#include "core/trace/trace_fields.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>

#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr std::size_t kMostShown = 40;  // bytes of a value in a message

constexpr std::string_view kNames[] = {
#define RINGSCOPE_NAME(place, field, name) name,
    RINGSCOPE_TRACE_FIELDS(RINGSCOPE_NAME)
#undef RINGSCOPE_NAME
};
constexpr TracePlace kPlaces[] = {
#define RINGSCOPE_PLACE(place, field, name) TracePlace::place,
    RINGSCOPE_TRACE_FIELDS(RINGSCOPE_PLACE)
#undef RINGSCOPE_PLACE
};

// Lookup maps the length and first letter of a name in one place to the last field that has both.
// Names that meet in a slot are told apart by comparing along the chain `others`.
struct Lookup {
  static constexpr std::size_t kSlots = 256;
  std::array<std::uint8_t, kSlots> first{};
  std::array<std::uint8_t, kFieldCount> others{};

  static constexpr std::size_t slot(std::string_view name) {
    return (name.size() + 16 * static_cast<unsigned char>(name[0])) % kSlots;
  }
  constexpr explicit Lookup(TracePlace place) {
    for (auto& entry : first) entry = kFieldCount;
    for (std::size_t i = 0; i < kFieldCount; ++i) {
      if (kPlaces[i] != place) continue;
      others[i] = first[slot(kNames[i])];
      first[slot(kNames[i])] = static_cast<std::uint8_t>(i);
    }
  }
  EventField find(std::string_view name) const {
    if (name.empty()) return EventField::none;
    std::size_t i = first[slot(name)];
    while (i < kFieldCount && kNames[i] != name) i = others[i];
    return static_cast<EventField>(i);
  }
};
constexpr Lookup kLookups[] = {Lookup(TracePlace::top),        Lookup(TracePlace::distributed),
                               Lookup(TracePlace::ring),       Lookup(TracePlace::shape),
                               Lookup(TracePlace::failure),    Lookup(TracePlace::tile),
                               Lookup(TracePlace::provenance), Lookup(TracePlace::story_step),
                               Lookup(TracePlace::event),      Lookup(TracePlace::args)};

// Read all of `text` as one number of type T. Return false when it is not one.
template <class T>
bool read_all(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Read an integer. A zero with a sign is none, because as a float it must keep the sign.
bool read_integer(std::string_view text, std::int64_t& result) {
  if (text.empty() || text.size() > 18 || text[0] == '-')
    return read_all(text, result) && result != 0;
  std::int64_t value = 0;  // cannot overflow
  for (const char c : text) {
    if (!is_digit(c)) return false;
    value = 10 * value + (c - '0');
  }
  result = value;
  return true;
}

// Read microseconds without an exponent and with at most three decimals, within kMaxTraceNs.
bool read_plain_time(std::string_view text, std::int64_t& ns) {
  const char* p = text.data();
  const char* const end = p + text.size();
  const bool negative = p < end && *p == '-';
  if (negative) ++p;
  const char* const digits = p;
  std::int64_t result = 0;
  while (p < end && is_digit(*p) && p - digits < 16) result = 10 * result + (*p++ - '0');
  if (p == digits) return false;
  int decimals = 0;
  if (p < end && *p == '.')
    for (++p; p < end && is_digit(*p) && decimals < 3; ++decimals)
      result = 10 * result + (*p++ - '0');
  if (p != end) return false;
  for (; decimals < 3; ++decimals)
    if (__builtin_mul_overflow(result, std::int64_t{10}, &result)) return false;
  if (result > kMaxTraceNs) return false;
  ns = negative ? -result : result;
  return true;
}

// Return microseconds in JSON's number syntax, exponents included, as nanoseconds rounded to the
// nearest. Return none for anything else and beyond kMaxTraceNs.
std::optional<std::int64_t> nanoseconds_of(std::string_view text) {
  std::int64_t plain = 0;
  if (read_plain_time(text, plain)) return plain;
  // A double's 53 bits are too few for times since 1970, but libc++'s from_chars() reads no more. It
  // finds out whether this is a number at all.
  double rough = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rough);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  errno = 0;
  const long double microseconds = std::strtold(std::string(text).c_str(), nullptr);
  if (errno == ERANGE) return std::nullopt;
  const long double ns = std::round(microseconds * 1000);
  if (!(std::abs(ns) <= static_cast<long double>(kMaxTraceNs))) return std::nullopt;
  return static_cast<std::int64_t>(ns);
}

}  // namespace

std::string_view name_of(EventField field) { return kNames[static_cast<std::size_t>(field)]; }

EventField field_of(TracePlace place, std::string_view name) {
  return kLookups[static_cast<std::size_t>(place)].find(name);
}

void TraceFields::set(EventField field, JsonToken token, std::string_view text, std::uint64_t at) {
  Value& value = values_[static_cast<std::size_t>(field)];
  present_.set(static_cast<std::size_t>(field));
  value.token = token;
  value.at = at;
  value.exact = false;
  if (token == JsonToken::number)
    value.exact = is_time(field) ? read_plain_time(text, value.number) && value.number >= 0
                                 : read_integer(text, value.number);
  const bool has_text = token >= JsonToken::string;  // others begin an object or array
  if (has_text && !value.exact) value.text.assign(text);
}

void TraceFields::refuse_missing(EventField field) const {
  fail_at(end_, fmt::format("{} missing", name_of(field)));
}

void TraceFields::refuse(EventField field, std::string_view accepted) const {
  const Value& given = value(field);
  std::string spelled;
  if (given.token == JsonToken::string)
    spelled = '"' + printable(given.text, kMostShown) + '"';
  else if (given.token == JsonToken::number || given.token == JsonToken::literal)
    spelled = given.exact ? fmt::format("{}", given.number) : printable(given.text, kMostShown);
  else
    spelled = given.token == JsonToken::begin_object ? "an object" : "an array";
  fail_at(given.at, fmt::format("{} given for {}; {} accepted", spelled, name_of(field), accepted));
}

void TraceFields::require_end(std::int64_t end_ns) const {
  if (end_ns > kMaxTraceNs)
    fail_at(
        at(EventField::dur),
        fmt::format("dur ends later than {} microseconds after the base time", kMaxTraceNs / 1000));
}

std::size_t TraceFields::choice_of(EventField field, const std::string_view* names,
                                   std::size_t count) const {
  if (present(field).token == JsonToken::string)
    for (std::size_t i = 0; i < count; ++i)
      if (value(field).text == names[i]) return i;
  std::string accepted = count > 2 ? "one of " : "";
  for (std::size_t i = 0; i < count; ++i)
    accepted += fmt::format("{}\"{}\"", i == 0 ? "" : count > 2 ? ", " : " or ", names[i]);
  refuse(field, accepted);
}

std::string_view TraceFields::string(EventField field) const {
  const Value& given = present(field);
  if (given.token != JsonToken::string) refuse(field, "a string");
  return given.text;
}

std::int64_t TraceFields::integer(EventField field, std::int64_t low, std::int64_t high) const {
  const Value& given = present(field);
  if (!given.exact || given.number < low || given.number > high)
    refuse(field, low == high ? fmt::format("{}", low)
                              : fmt::format("an integer from {} to {}", low, high));
  return given.number;
}

std::int64_t TraceFields::time(EventField field, std::int64_t low) const {
  const Value& given = present(field);
  if (given.exact) return given.number;
  std::int64_t ns = 0;
  if (low >= 0 || given.token != JsonToken::number || !read_plain_time(given.text, ns))
    refuse(field, fmt::format("microseconds with up to 3 decimals from {} to {}", low / 1000,
                              kMaxTraceNs / 1000));
  return ns;
}

float TraceFields::real(EventField field) const {
  const Value& given = present(field);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (given.token == JsonToken::string) {
    if (given.text == "inf") return kInfinity;
    if (given.text == "-inf") return -kInfinity;
    if (given.text == "nan") return std::numeric_limits<float>::quiet_NaN();
  }
  if (given.exact) return static_cast<float>(given.number);
  float result = 0;
  if (given.token != JsonToken::number || !read_all(given.text, result))
    refuse(field, "a number in the range of f32, \"inf\", \"-inf\" or \"nan\"");
  return result;
}

std::optional<std::int64_t> TraceFields::any_integer(EventField field) const {
  if (!has(field)) return std::nullopt;
  const Value& given = value(field);
  if (given.exact) return given.number;
  std::int64_t result = 0;
  if (given.token == JsonToken::string && read_integer(given.text, result)) return result;
  double real = 0;
  constexpr double kLimit = 9e18;
  if (given.token != JsonToken::number || !read_all(given.text, real) ||
      !(std::abs(real) < kLimit) || real != std::floor(real))
    return std::nullopt;
  return static_cast<std::int64_t>(real);
}

std::optional<std::int64_t> TraceFields::any_time(EventField field) const {
  if (!has(field)) return std::nullopt;
  const Value& given = value(field);
  std::optional<std::int64_t> ns;
  if (given.exact)
    ns = given.number;
  else if (given.token == JsonToken::number || given.token == JsonToken::string)
    ns = nanoseconds_of(given.text);
  else if (given.token == JsonToken::literal && given.text == "null")
    return std::nullopt;
  if (!ns || *ns < 0) refuse(field, fmt::format("microseconds from 0 to {}", kMaxTraceNs / 1000));
  return ns;
}

std::string TraceFields::any_text(EventField field) const {
  if (!has(field)) return "";
  const Value& given = value(field);
  if (given.exact) return fmt::format("{}", given.number);
  const bool spelled = given.token == JsonToken::string || given.token == JsonToken::number;
  return spelled ? given.text : "";
}

}  // namespace ringscope
