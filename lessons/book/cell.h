// The numbers that lessons show, as text and in tables. Whatever differs between machines (times,
// rounding errors) is shown to the reader, but left out of pages and tests.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope::lessons {

struct Cell {
  std::string shown;  // to the reader who runs the lesson
  std::string kept;   // on the page

  Cell(std::string text) : shown(text), kept(std::move(text)) {}
  Cell(const char* text) : Cell(std::string(text)) {}
  Cell(std::integral auto value) : Cell(with_commas(static_cast<Index>(value))) {}
  Cell(double value);  // four significant digits; whole numbers below 1e15 in full
  Cell(std::string shown_text, std::string kept_text)
      : shown(std::move(shown_text)), kept(std::move(kept_text)) {}

  static std::string with_commas(Index value);  // 12,345
};

Cell fixed(double value, int decimals);
Cell percent(double share, int decimals = 1);  // 0.5 is 50.0 %
Cell bytes(double count);                      // 512 bytes, 1.5 KiB, 64 GiB
// A rounding error. The page says "at most BOUND"; a larger error, or NaN, makes the page stale.
Cell rounding(double error, double bound);
// A time or another measured quantity. The page shows "…".
Cell seconds(double value);
Cell measured(std::string text);

class Table {
 public:
  explicit Table(std::vector<std::string> head) : head_(std::move(head)) {}

  // Add a row with as many cells as the head. Throw std::logic_error for any other number.
  template <class... Values>
  void row(const Values&... values) {
    add({Cell(values)...});
  }
  void add(std::vector<Cell> cells);

  const std::vector<std::string>& head() const { return head_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }

 private:
  std::vector<std::string> head_;
  std::vector<std::vector<Cell>> rows_;
};

// Write a small matrix row by row as text, with `columns` values per line.
std::string matrix_text(const std::vector<double>& values, Index columns, int decimals);
template <class Values>
std::string matrix(const Values& values, Index columns, int decimals = 2) {
  return matrix_text({std::begin(values), std::end(values)}, columns, decimals);
}
// Write a few numbers in one line: "0.09, 0.24, 0.67".
std::string numbers(const std::vector<double>& values, int decimals = 2);

}  // namespace ringscope::lessons
