// Many simulations: one for each combination of the values that some settings take, and the figures
// of each, in the order of an odometer whose last wheel turns fastest.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/sim/scenario.h"
#include "core/sim/swept.h"

namespace ringscope {

struct SweepPoint {
  Scenario scenario;
  std::vector<std::size_t> at;     // of each axis, which of its values
  std::optional<std::string> why;  // it can't be done; then the figures are zeros
  Figures figures;
};

struct SweepTable {
  std::vector<SweptAxis> axes;
  std::vector<SweepPoint> points;

  // Whose axes have the values `at`.
  const SweepPoint& point(const std::vector<std::size_t>& at) const;
  // Index into axes, or none when it is not swept.
  std::optional<std::size_t> axis_of(Setting setting) const;
};

// All points, without figures. Throws InputError for one that can't be meant: a mask that does not
// fit its seqlen, stragglers or nodes that are more than the ranks.
SweepTable points_of(const Scenario& base, const std::vector<SweptAxis>& axes);

// Fills in the figures. `progress` is told the share that is done.
void run_sweep(SweepTable& table, const std::function<void(double)>& progress = {});

// Columns of a table of points: what was swept, and the figures.
struct SweepColumn {
  std::string name;
  std::string unit;                                    // "s", "bytes", "GB/s" or ""
  std::function<std::string(const SweepPoint&)> text;  // a number that reads back to the same bits
  bool is_text = false;
};
const std::vector<SweepColumn>& sweep_columns();

// The table as CSV (RFC 4180, a line's end is \n): a line of names, a line for each point. Figures
// of points that can't be done are empty.
std::string sweep_csv(const SweepTable& table);

}  // namespace ringscope
