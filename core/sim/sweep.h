// What a sweep goes through: settings and the values that each of them takes, as they are written
// on the command line.
//
//   seqlen=8192:131072:*2 world-size=2,4,8 partition=zigzag,striped
//
// A range is FIRST:LAST:*FACTOR or FIRST:LAST:+STEP, ends included. Settings are separated by
// blanks, ';' or ','.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/sim/scenario.h"

namespace ringscope {

enum class Setting { seqlen, world_size, partition, scheme, mask, kv_buffers, bandwidth, jitter };

inline constexpr Setting kAllSettings[] = {
    Setting::seqlen, Setting::world_size, Setting::partition, Setting::scheme,
    Setting::mask,   Setting::kv_buffers, Setting::bandwidth, Setting::jitter};

constexpr std::string_view name_of(Setting setting) {
  constexpr std::string_view names[] = {"seqlen", "world-size", "partition", "scheme",
                                        "mask",   "kv-buffers", "bandwidth", "jitter"};
  return names[static_cast<int>(setting)];
}

// What `kv-buffers` is where ranks keep step.
inline constexpr std::string_view kInStep = "in-step";

struct SweptValue {
  std::string text;   // as it was written, or as a range's numbers are
  double number = 0;  // of a setting that has numbers: GB/s of a bandwidth, 0 for in-step
};

struct SweptAxis {
  Setting setting = Setting::seqlen;
  std::vector<SweptValue> values;  // at least one, none twice
};

inline constexpr std::size_t kMostSweptValues = 10000;  // of an axis
inline constexpr std::size_t kMostSweptPoints = 100000;

// Throws InputError naming setting and value, and what would be accepted: an unknown setting or one
// given twice, a value that the setting can't take, a range that does not lead from its first
// number to its last, too many values or combinations.
std::vector<SweptAxis> parse_sweep(std::string_view text);

// Sets it. (Job::kv_buffers stays as it is where ranks keep step.)
void apply(Setting setting, const SweptValue& value, Scenario& scenario);

// ---
// Many simulations: one for each combination of the values that some settings take, and the figures
// of each, in the order of an odometer whose last wheel turns fastest.

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
