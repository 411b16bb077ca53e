// A run's numbers, as a table for people or as one JSON object for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/run/verify.h"
#include "core/base/text.h"
#include "core/run/run.h"
#include "core/trace/summary.h"

namespace ringscope {

// All numbers of a run.
struct Report {
  Problem config;
  std::string backend;
  std::string engine_notes;
  RunSummary summary;
  double wall_s = 0;
  std::vector<Index> peak_bytes;            // one per rank, measured
  std::vector<Index> predicted_peak_bytes;  // one per rank
  std::vector<Index> predicted_pairs;       // one per rank
  std::vector<Index> dropped_events;        // one per rank
  double predicted_balance_ceiling = 1;
  std::string largest_loss;  // "" if there is none
  std::optional<Verdict> verdict;
};

Report make_report(const Problem& config, const RingRun& run, std::optional<Verdict> verdict);

// Return a table with one row per rank and the lines below it; the text ends with a newline.
std::string report_text(const Report& report);

// Return one JSON object and a newline. Numbers that JSON lacks (NaN, infinities) are null.
std::string report_json(const Report& report);

}  // namespace ringscope
