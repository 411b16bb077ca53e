#include "viz/model/wording.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace ringscope::viz {

namespace {

// Three digits, without zeros behind the point.
std::string digits(double x) {
  const double size = std::abs(x);
  std::string text = fmt::format("{:.{}f}", x, size < 10 ? 2 : size < 100 ? 1 : 0);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

template <std::size_t N>
std::string scaled(double x, double base, const char* const (&units)[N]) {
  std::size_t unit = 0;
  // 999.6 reads as 1000, which is the next unit's 1.
  while (unit + 1 < N && std::abs(x) >= base - 0.5) {
    x /= base;
    ++unit;
  }
  return *units[unit] == 0 ? digits(x) : digits(x) + " " + units[unit];
}

}  // namespace

std::string words_of_time(double ns) {
  constexpr const char* kUnits[] = {"ns", "µs", "ms", "s"};
  return scaled(ns, 1000, kUnits);
}

std::string words_of_count(double count) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  return scaled(count, 1000, kUnits);
}

std::string words_of_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled(bytes, 1024, kUnits);
}

std::string words_of_share(double share) {
  const double percent = 100 * share;
  const bool small = percent > 0 && percent < 0.95;
  return fmt::format("{:.{}f} %", percent, small ? 1 : 0);
}

std::string words_of_factor(double factor) {
  return factor >= 9.95 ? fmt::format("{:.0f}", factor) : digits(factor);
}

}  // namespace ringscope::viz
