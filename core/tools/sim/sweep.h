// A sweep simulates all combinations of the values that some settings take. This file reads the
// settings from the command line, runs the sweep and makes a table.
//
//   seqlen=8192:131072:*2 world-size=2,4,8 partition=zigzag,striped
//
// A range is FIRST:LAST:*FACTOR or FIRST:LAST:+STEP, ends included. Separate settings by blanks,
// ';' or ','.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tools/sim/scenario.h"

namespace ringscope {

struct SweptAxis {
  std::string setting;  // the name of a row of scenario_rows.h
  std::vector<std::string>
      values;  // as written, or as a range's numbers are printed; without repeats
};

inline constexpr std::size_t kMostSweptValues = 10000;  // of an axis
inline constexpr std::size_t kMostSweptPoints = 100000;

// Return the names of the settings that can be swept.
std::string swept_names();

// Parse the settings. Throw InputError with setting, value and what is accepted, for an unknown or
// repeated setting, a value that the setting can't take, a range that does not lead from its first
// number to its last, and too many values or combinations.
std::vector<SweptAxis> parse_sweep(std::string_view text);

// Set the axis's setting in `scenario` to its value `at`.
void apply(const SweptAxis& axis, std::size_t at, Scenario& scenario);

// ---
// Run one simulation for each combination of values. The points are ordered like an odometer whose
// last wheel turns fastest.

struct SweepPoint {
  Scenario scenario;
  std::vector<std::size_t> at;     // index of each axis's value
  std::optional<std::string> why;  // why the point is impossible; its figures are then zeros
  Figures figures;
};

struct SweepTable {
  std::vector<SweptAxis> axes;
  std::vector<SweepPoint> points;
};

// Return all points, without figures. Throw InputError for an invalid one: a mask that does not fit
// its seqlen, or more stragglers or nodes than ranks.
SweepTable points_of(const Scenario& base, const std::vector<SweptAxis>& axes);

// Fill in the figures. `progress` is called with the share that is done.
void run_sweep(SweepTable& table, const std::function<void(double)>& progress = {});

// Return the table as CSV (RFC 4180 with \n as line end): a line of names, then a line per point, of
// the settings that can be swept and the figures, which are empty for impossible points. Numbers read
// back to the same bits. `constants`, names and values, are the same in all lines.
std::string sweep_csv(const SweepTable& table,
                      const std::vector<std::pair<std::string, std::string>>& constants = {});

}  // namespace ringscope
