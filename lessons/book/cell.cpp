#include "lessons/book/cell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ringscope::lessons {
namespace {

constexpr const char* kEllipsis = "\u2026";

std::string plain(double value) {
  if (std::isfinite(value) && value == std::floor(value) && std::abs(value) < 1e15)
    return Cell::with_commas(static_cast<Index>(value));
  return fmt::format("{:.4g}", value);
}

}  // namespace

Cell::Cell(double value) : Cell(plain(value)) {}

std::string Cell::with_commas(Index value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

Cell fixed(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

Cell percent(double share, int decimals) { return fmt::format("{:.{}f} %", 100 * share, decimals); }

Cell bytes(double count) {
  constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; std::abs(count) >= 1024 && unit + 1 < std::size(units); ++unit) count /= 1024;
  return fmt::format("{:.4g} {}", count, units[unit]);
}

Cell rounding(double error, double bound) {
  const std::string shown = error == 0 ? "0" : fmt::format("{:.1e}", error);
  return {shown, error <= bound ? fmt::format("at most {:g}", bound) : shown};
}

Cell seconds(double value) {
  constexpr const char* units[] = {"s", "ms", "us", "ns"};
  std::size_t unit = 0;
  for (; std::abs(value) < 1 && unit + 1 < std::size(units); ++unit) value *= 1000;
  return measured(fmt::format("{:.3g} {}", value, units[unit]));
}

Cell measured(std::string text) { return {std::move(text), kEllipsis}; }

void Table::add(std::vector<Cell> cells) {
  if (cells.size() != head_.size())
    throw std::logic_error(
        fmt::format("a row of {} cells under a head of {}", cells.size(), head_.size()));
  rows_.push_back(std::move(cells));
}

std::string matrix_text(const std::vector<double>& values, Index columns, int decimals) {
  std::vector<std::string> texts;
  std::size_t width = 0;
  for (const double value : values) {
    texts.push_back(fmt::format("{:.{}f}", value, decimals));
    width = std::max(width, texts.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool ends_row = (i + 1) % static_cast<std::size_t>(columns) == 0 || i + 1 == texts.size();
    text += fmt::format("{:>{}}{}", texts[i], width, ends_row ? "\n" : "  ");
  }
  return text;
}

std::string numbers(const std::vector<double>& values, int decimals) {
  return fmt::format("{:.{}f}", fmt::join(values, ", "), decimals);
}

}  // namespace ringscope::lessons
