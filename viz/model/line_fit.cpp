#include "viz/model/line_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringscope::viz {
namespace {

struct Sums {
  double n = 0, x = 0, t = 0, xx = 0, xt = 0;
};

// The fixed time of the least squares' line; 0 where amounts differ too little to tell it.
double fixed_seconds(const std::vector<Measured>& measured, const Sums (&sums)[2]) {
  double n = 0, over = 0, under = 0, groups = 0;
  for (const Sums& s : sums) {
    if (s.n == 0) continue;
    ++groups;
    n += s.n;
    over += s.t - s.xt * s.x / s.xx;
    under += s.n - s.x * s.x / s.xx;
  }
  // `under` / n: about the square of how much amounts differ, as a share of them.
  if (n < groups + 2 || under < 1e-4 * n) return 0;
  const double fixed = over / under;
  double squares = 0;
  for (const Measured& m : measured) {
    const Sums& s = sums[m.group];
    const double slope = (s.xt - fixed * s.x) / s.xx;
    const double off = m.seconds - fixed - slope * m.amount;
    squares += off * off;
  }
  const double error = std::sqrt(squares / (n - groups - 1) / under);
  return fixed >= 3 * error ? std::max(fixed, 0.0) : 0;
}

}  // namespace

LineFit fit_line(const std::vector<Measured>& measured, double most_fixed) {
  Sums sums[2];
  double least = std::numeric_limits<double>::infinity();
  for (const Measured& m : measured) {
    Sums& s = sums[m.group];
    s.n += 1;
    s.x += m.amount;
    s.t += m.seconds;
    s.xx += m.amount * m.amount;
    s.xt += m.amount * m.seconds;
    least = std::min(least, m.seconds);
  }
  LineFit fit;
  if (measured.empty()) return fit;
  fit.fixed = fixed_seconds(measured, sums);
  if (!(fit.fixed <= most_fixed)) fit.fixed = 0;
  fit.fixed = std::min(fit.fixed, least);
  for (int group = 0; group < 2; ++group) {
    const Sums& s = sums[group];
    if (s.n > 0) fit.per_unit[group] = (s.t - s.n * fit.fixed) / s.x;
  }
  return fit;
}

}  // namespace ringscope::viz
