#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "lessons/book/book.h"

namespace ringscope::lessons {

std::string verdict_on(double guess, double actual, double tolerance) {
  if (guess == actual) return "You predicted exactly that.";
  const double off = std::abs(guess - actual);
  const std::string beginning = fmt::format("You predicted {}: ", Cell(guess).shown);
  if (off <= tolerance * std::abs(actual))
    return beginning + fmt::format("right, within {}.", Cell(off).shown);
  std::string how = fmt::format("{} too {}", Cell(off).shown, guess < actual ? "low" : "high");
  if (guess * actual > 0) {
    const double ratio = std::max(guess / actual, actual / guess);
    how += ratio < 2 ? fmt::format(", {:.0f} % off", 100 * off / std::abs(actual))
                     : fmt::format(", by a factor of {:.3g}", ratio);
  }
  return beginning + how + ".";
}

std::optional<double> number_in(const std::string& text) {
  std::string digits;
  for (const char c : text)
    if (c != ',' && c != '_' && c != ' ' && c != '\t' && c != '\r') digits += c;
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop == digits.data() || !std::isfinite(value)) return std::nullopt;
  static const std::map<std::string, double> factors = {
      {"", 1},     {"%", 1},       {"k", 1e3},     {"K", 1e3},     {"M", 1e6},    {"G", 1e9},
      {"T", 1e12}, {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
  const auto factor = factors.find(std::string(stop, end));
  if (factor == factors.end()) return std::nullopt;
  return value * factor->second;
}

}  // namespace ringscope::lessons
