// seconds = per_unit[group] x amount + fixed, through what was measured: the least squares' line for
// several groups of measurements with slopes of their own.
#pragma once

#include <cstdint>
#include <vector>

namespace ringscope::viz {

struct Measured {
  double amount = 0;   // above 0
  double seconds = 0;  // at least 0
  int group = 0;       // 0 or 1
};

struct LineFit {
  double per_unit[2] = {};  // seconds; 0 for a group without measurements
  double fixed = 0;         // seconds, at least 0
};

// `fixed` is 0 unless it is at least three times as large as its own standard error, and at most
// `most_fixed`: what is more than that is no line's. The groups' times come out right in sum, whatever
// is fixed.
LineFit fit_line(const std::vector<Measured>& measured, double most_fixed);

}  // namespace ringscope::viz
