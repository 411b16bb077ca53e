// Every way to deal a job out and to move its blocks, side by side, and the best of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cost/layer_time.h"

namespace ringscope {

struct Choice {
  Job job;
  Balance balance;
  LayerTime time;
  double peak_bytes = 0;                // of the rank that holds most
  std::optional<std::string> obstacle;  // why it can't be done
};

// One choice, judged.
Choice judge(const Job& job, const Rates& rates, double memory_bytes);

// `job` in all partitions, on a ring and gathered, and by heads. With Ulysses every rank holds the
// whole sequence while it computes, so there partition makes no difference and stands as
// contiguous.
std::vector<Choice> all_choices(const Job& job, const Rates& rates, double memory_bytes);

// Index of the fastest of those that can be done; among those within 1 % of it, the first one in
// the order of all_choices (contiguous rows before others, and fewer partial tiles before more:
// C25). None when none can be done.
std::optional<std::size_t> best_choice(const std::vector<Choice>& choices);

}  // namespace ringscope
