#include "viz/model/trace/trace_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace ringscope::viz {
namespace {

constexpr std::string_view kNames[] = {"ph",
                                       "cat",
                                       "name",
                                       "pid",
                                       "tid",
                                       "ts",
                                       "dur",
                                       "id",
                                       "bp",
                                       "pass",
                                       "step",
                                       "kv_owner",
                                       "pairs",
                                       "flops",
                                       "tiles_full",
                                       "tiles_partial",
                                       "tiles_skipped",
                                       "cpu_us",
                                       "payload",
                                       "bytes",
                                       "src",
                                       "dst",
                                       "flow",
                                       "waiting_for",
                                       "query",
                                       "row_max",
                                       "row_sum",
                                       "lse",
                                       "lse_error",
                                       "name",
                                       "sort_index",
                                       "Collective name",
                                       "In msg nelems",
                                       "Out msg nelems",
                                       "dtype",
                                       "Src Rank",
                                       "Dst Rank"};
static_assert(std::size(kNames) == kFieldCount);

constexpr std::size_t kFirstOfArgs = static_cast<std::size_t>(Field::pass);

std::string_view name_of(Field field) { return kNames[static_cast<std::size_t>(field)]; }

// Return a == b without a call, which would take longer than comparing these short names.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  std::uint64_t x = 0, y = 0;
  std::size_t i = 0;
  for (; i + 8 <= a.size(); i += 8) {
    std::memcpy(&x, a.data() + i, 8);
    std::memcpy(&y, b.data() + i, 8);
    if (x != y) return false;
  }
  for (; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}

// Lookup maps a name's length and first letter to the last field that has both. Names that agree in
// both are told apart by comparing along the chain `others`.
struct Lookup {
  static constexpr std::size_t kLengths = 16, kLetters = 32;
  std::array<std::uint8_t, kLengths * kLetters> first{};
  std::array<std::uint8_t, kFieldCount> others{};

  static constexpr std::size_t slot(std::string_view name) {
    return name.size() * kLetters + static_cast<unsigned char>(name[0]) % kLetters;
  }
  constexpr Lookup(std::size_t begin, std::size_t end) {
    for (auto& entry : first) entry = kFieldCount;
    for (std::size_t i = begin; i < end; ++i) {
      others[i] = first[slot(kNames[i])];
      first[slot(kNames[i])] = static_cast<std::uint8_t>(i);
    }
  }
  Field find(std::string_view name) const {
    if (name.empty() || name.size() >= kLengths) return Field::none;
    std::size_t i = first[slot(name)];
    while (i < kFieldCount && !same(kNames[i], name)) i = others[i];
    return static_cast<Field>(i);
  }
};
constexpr Lookup kEventLookup(0, kFirstOfArgs);
constexpr Lookup kArgsLookup(kFirstOfArgs, kFieldCount);

// Read the integer that all of `text` spells.
bool read_integer(std::string_view text, std::int64_t& result) {
  if (!text.empty() && text.size() <= 18 && text[0] != '-') {  // cannot overflow
    std::int64_t value = 0;
    for (const char c : text) {
      if (!is_digit(c)) return false;
      value = 10 * value + (c - '0');
    }
    result = value;
    return true;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  return error == std::errc() && end == text.data() + text.size();
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

// Return `text` for a message, on one line and not too long.
std::string shown(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 40)) result += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > 40) result += "...";
  return result;
}

}  // namespace

Field event_field(std::string_view name) { return kEventLookup.find(name); }
Field args_field(std::string_view name) { return kArgsLookup.find(name); }

std::optional<std::int64_t> nanoseconds_of(std::string_view text) {
  std::int64_t plain = 0;
  if (read_plain_time(text, plain)) return plain;
  // Read the digits and a power of ten, which the point and the exponent shift.
  const char* p = text.data();
  const char* const end = p + text.size();
  const bool negative = p < end && *p == '-';
  if (negative) ++p;
  std::int64_t mantissa = 0, power = 3;
  bool any = false, point = false, more = false;
  for (; p < end && (is_digit(*p) || (*p == '.' && !point)); ++p) {
    if (*p == '.') {
      point = true;
      continue;
    }
    any = true;
    if (mantissa < std::numeric_limits<std::int64_t>::max() / 10 - 1) {
      mantissa = 10 * mantissa + (*p - '0');
      power -= point;
    } else {  // digits beyond the 18th are too small to matter
      more = true;
      power += !point;
    }
  }
  if (!any) return std::nullopt;
  if (p < end && (*p == 'e' || *p == 'E')) {
    ++p;
    if (p < end && *p == '+') ++p;
    std::int64_t exponent = 0;
    const auto [rest, error] = std::from_chars(p, end, exponent);
    if (rest != end || rest == p) return std::nullopt;
    if (error != std::errc()) exponent = *p == '-' ? -1000000 : 1000000;
    power += std::clamp<std::int64_t>(exponent, -1000000, 1000000);
    p = rest;
  }
  if (p != end) return std::nullopt;
  if (mantissa == 0 && !more) return 0;
  for (; power > 0; --power)
    if (__builtin_mul_overflow(mantissa, std::int64_t{10}, &mantissa)) return std::nullopt;
  int last = 0;
  for (; power < 0 && mantissa > 0; ++power) {
    last = static_cast<int>(mantissa % 10);
    mantissa /= 10;
  }
  if (power < 0) last = 0;
  mantissa += last >= 5;
  if (mantissa > kMaxTraceNs) return std::nullopt;
  return negative ? -mantissa : mantissa;
}

void EventFields::set(Field field, JsonToken token, std::string_view text, std::uint64_t at) {
  Value& value = values_[static_cast<std::size_t>(field)];
  present_ |= std::uint64_t{1} << static_cast<int>(field);
  value.token = token;
  value.at = at;
  value.exact = false;
  if (token == JsonToken::number) {
    const bool is_time = field == Field::ts || field == Field::dur || field == Field::cpu_us;
    value.exact = is_time ? read_plain_time(text, value.number) && value.number >= 0
                          : read_integer(text, value.number);
  }
  if (!value.exact) value.text.assign(text);
}

const EventFields::Value& EventFields::present(Field field, std::uint64_t end) const {
  if (!has(field)) fail_at(end, fmt::format("{} missing", name_of(field)));
  return value(field);
}

void EventFields::refuse(Field field, std::string_view accepted) const {
  const Value& given = value(field);
  std::string spelled;
  if (given.token == JsonToken::string) {
    spelled = '"' + shown(given.text) + '"';
  } else if (given.token == JsonToken::number || given.token == JsonToken::literal) {
    spelled = given.exact ? fmt::format("{}", given.number) : shown(given.text);
  } else {
    spelled = given.token == JsonToken::begin_object ? "an object" : "an array";
  }
  fail_at(given.at, fmt::format("{} given for {}; {} accepted", spelled, name_of(field), accepted));
}

std::int64_t EventFields::integer(Field field, std::int64_t low, std::int64_t high,
                                  std::uint64_t end) const {
  const Value& given = present(field, end);
  if (!given.exact || given.number < low || given.number > high)
    refuse(field, low == high ? fmt::format("{}", low)
                              : fmt::format("an integer from {} to {}", low, high));
  return given.number;
}

std::int64_t EventFields::time(Field field, std::uint64_t end) const {
  const Value& given = present(field, end);
  if (!given.exact)
    refuse(field,
           fmt::format("microseconds with up to 3 decimals from 0 to {}", kMaxTraceNs / 1000));
  return given.number;
}

float EventFields::real(Field field, std::uint64_t end) const {
  const Value& given = present(field, end);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (given.token == JsonToken::string) {
    if (given.text == "inf") return kInfinity;
    if (given.text == "-inf") return -kInfinity;
    if (given.text == "nan") return std::numeric_limits<float>::quiet_NaN();
  }
  if (given.exact) return static_cast<float>(given.number);
  float result = 0;
  const char* const last = given.text.data() + given.text.size();
  const auto read = std::from_chars(given.text.data(), last, result);
  if (given.token != JsonToken::number || read.ec != std::errc() || read.ptr != last)
    refuse(field, "a number in the range of f32, \"inf\", \"-inf\" or \"nan\"");
  return result;
}

std::string_view EventFields::string(Field field, std::uint64_t end) const {
  const Value& given = present(field, end);
  if (given.token != JsonToken::string) refuse(field, "a string");
  return given.text;
}

std::optional<std::int64_t> EventFields::any_integer(Field field) const {
  if (!has(field)) return std::nullopt;
  const Value& given = value(field);
  if (given.exact) return given.number;
  std::int64_t result = 0;
  if (given.token == JsonToken::string && read_integer(given.text, result)) return result;
  if (given.token != JsonToken::number) return std::nullopt;
  double real = 0;
  const char* const last = given.text.data() + given.text.size();
  if (std::from_chars(given.text.data(), last, real).ptr != last) return std::nullopt;
  constexpr double kLimit = 9e18;
  if (!(std::abs(real) < kLimit) || real != std::floor(real)) return std::nullopt;
  return static_cast<std::int64_t>(real);
}

std::optional<std::int64_t> EventFields::any_time(Field field) const {
  if (!has(field)) return std::nullopt;
  const Value& given = value(field);
  std::optional<std::int64_t> ns;
  if (given.exact) {
    ns = given.number;
  } else if (given.token == JsonToken::number || given.token == JsonToken::string) {
    ns = nanoseconds_of(given.text);
  } else if (given.token == JsonToken::literal && given.text == "null") {
    return std::nullopt;
  }
  if (!ns || *ns < 0) refuse(field, fmt::format("microseconds from 0 to {}", kMaxTraceNs / 1000));
  return ns;
}

std::string EventFields::any_text(Field field) const {
  if (!has(field)) return "";
  const Value& given = value(field);
  if (given.exact) return fmt::format("{}", given.number);
  const bool spelled = given.token == JsonToken::string || given.token == JsonToken::number;
  return spelled ? given.text : "";
}

}  // namespace ringscope::viz
