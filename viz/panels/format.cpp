#include "viz/panels/format.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace ringscope::viz {
namespace {

struct Unit {
  double size;
  const char* name;
};

// Format three significant digits, and never use powers of ten.
std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  if (magnitude < 9.995) return fmt::format("{:.2f}", value);
  if (magnitude < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// Format in the largest of `units` (ascending) of which the value is at least one after rounding.
// Whole numbers of the smallest unit carry no decimals.
std::string in_units(double value, std::span<const Unit> units) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "-∞";
  if (value == 0) value = 0;  // removes the sign of -0
  const Unit* unit = &units.front();
  for (const Unit& u : units)
    if (std::abs(value) >= 0.9995 * u.size) unit = &u;
  const double scaled = value / unit->size;
  const bool whole = unit == &units.front() && scaled == std::floor(scaled);
  const std::string text = whole ? fmt::format("{:.0f}", scaled) : three_digits(scaled);
  return *unit->name == '\0' ? text : fmt::format("{} {}", text, unit->name);
}

constexpr double kKi = 1024;
constexpr Unit kTimes[] = {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}};
constexpr Unit kBytes[] = {{1, "B"},
                           {kKi, "KiB"},
                           {kKi * kKi, "MiB"},
                           {kKi * kKi * kKi, "GiB"},
                           {kKi * kKi * kKi * kKi, "TiB"}};
constexpr Unit kCounts[] = {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}};
constexpr Unit kFlops[] = {{1, "FLOP"},    {1e3, "kFLOP"},  {1e6, "MFLOP"},
                           {1e9, "GFLOP"}, {1e12, "TFLOP"}, {1e15, "PFLOP"}};

}  // namespace

std::string time_text(double ns) { return in_units(ns, kTimes); }
std::string bytes_text(double bytes) { return in_units(bytes, kBytes); }
std::string bandwidth_text(double bytes_per_second) { return bytes_text(bytes_per_second) + "/s"; }
std::string count_text(double count) { return in_units(count, kCounts); }
std::string flops_text(double flops) { return in_units(flops, kFlops); }

std::string percent_text(double share) {
  if (std::isnan(share)) return "– %";
  return fmt::format("{:.1f} %", 100 * share + 0.0);
}

}  // namespace ringscope::viz
