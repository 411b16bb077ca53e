// What the processes of a run tell each other before they connect, as lines of text.
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
  std::string why_not;  // why it can't take part; one line, empty when it can

  bool operator==(const RankReport&) const = default;
};

// One line, without its end; and lines as one text.
std::string to_line(const RankReport& report);
std::string joined(const std::vector<std::string>& lines);
// Throws RunError when it is not what joined() made.
std::vector<RankReport> reports_of(const std::string& text);

// Throws RunError naming the lowest rank that can't take part, or has another NCCL than rank 0.
void check_reports(const std::vector<RankReport>& reports);

std::string to_hex(const ncclUniqueId& id);
// Throws RunError when it is not an id's.
ncclUniqueId id_of_hex(std::string_view hex);

}  // namespace ringscope::cuda
