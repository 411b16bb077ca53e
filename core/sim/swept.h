// What a sweep goes through: settings and the values that each of them takes, as they are written
// on the command line.
//
//   seqlen=8192:131072:*2 world-size=2,4,8 partition=zigzag,striped
//
// A range is FIRST:LAST:*FACTOR or FIRST:LAST:+STEP, ends included. Settings are separated by
// blanks, ';' or ','.
#pragma once

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

}  // namespace ringscope
