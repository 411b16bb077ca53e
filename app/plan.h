// The answer of `ringscope plan`, before it is put into words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/plan_options.h"
#include "core/cost/choices.h"
#include "core/cost/hardware.h"
#include "core/cost/memory.h"

namespace ringscope {

// How communication hides on a ring of the plan's partition, in one pass.
struct Overlap {
  double threshold_rows = 0;  // c*; may be infinite
  double headroom = 0;        // the rows there are / c*
};

struct Plan {
  PlanOptions options;
  Gpu gpu;
  Link link;
  Rates rates;
  double memory_limit = 0;  // bytes of a rank that attention may take

  std::vector<Choice> choices;
  std::optional<std::size_t> best;  // among all choices
  Choice chosen;                    // the best of those that --partition and --scheme leave
  std::vector<MemoryPart> memory;   // of `chosen`, as the next ones
  double share = 1;                 // of c^2 that is computed beside a hop, at the least
  Overlap forward, backward;        // backward: only with it
  Index largest_seqlen = 0;
  std::optional<int> smallest_world_size;
  std::optional<double> hidden_seqlen;  // at which nothing is exposed; none where no seqlen does it
};

// Throws InputError for unknown hardware or a bad table. With --measure this takes about 2 s.
Plan make_plan(const PlanOptions& options);

// For people; ends with a newline.
std::string plan_text(const Plan& plan);

// How every number of plan_text comes about, line by line; ends with a newline.
std::string plan_explanation(const Plan& plan);

// One JSON object and a newline.
std::string plan_json(const Plan& plan);

// "1.23 GB", of 10^9 bytes as in data sheets.
std::string gb_text(double bytes);

}  // namespace ringscope
