// The messages that the processes of a run exchange before they connect, as lines of text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cuda/nccl/nccl_api.h"
#include "cuda/nccl/placement.h"

namespace ringscope::cuda {

struct RankReport {
  RankGpus gpus;
  int nccl_version = 0;
  std::string why_not;  // one line on why the rank cannot take part; empty when it can

  bool operator==(const RankReport&) const = default;
};

// Write a report as one line, without its end, and join lines to one text.
std::string to_line(const RankReport& report);
std::string joined(const std::vector<std::string>& lines);
// Throws RunError when `text` is not what joined() made.
std::vector<RankReport> reports_of(const std::string& text);

// Throw a RunError naming the lowest rank that cannot take part or has another NCCL than rank 0.
void check_reports(const std::vector<RankReport>& reports);

std::string to_hex(const ncclUniqueId& id);
// Throws RunError when `hex` is not an id.
ncclUniqueId id_of_hex(std::string_view hex);

}  // namespace ringscope::cuda
