// A run's numbers, as a table for people or as one JSON object for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/run/verify.h"
#include "core/run/run.h"
#include "core/trace/summary.h"

namespace ringscope {

// Everything that is said about a run.
struct Report {
  RingConfig config;
  std::string backend;
  std::string engine_notes;
  RunSummary summary;
  double wall_s = 0;
  std::vector<Index> peak_bytes;            // one a rank, measured
  std::vector<Index> predicted_peak_bytes;  // one a rank
  std::vector<Index> predicted_pairs;       // one a rank
  std::vector<Index> dropped_events;        // one a rank
  double predicted_balance_ceiling = 1;
  std::optional<Verdict> verdict;
};

Report make_report(const RingConfig& config, const RingRun& run, std::optional<Verdict> verdict);

// A table, a row a rank, and the lines below it; ends with a newline.
std::string report_text(const Report& report);

// One JSON object and a newline. What JSON has no number for (NaN, infinities) is null.
std::string report_json(const Report& report);

// "12.3 ms"
std::string seconds_text(double seconds);

}  // namespace ringscope
