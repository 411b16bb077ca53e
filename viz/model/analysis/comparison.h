// Recordings side by side, matched by (rank, step, owner) and not by time.
#pragma once

#include <string>
#include <vector>

#include "viz/model/session/document.h"

namespace ringscope::viz {

// One line of the table: the same figure of every recording.
struct ComparedFigure {
  std::string name;                // "balance ceiling", with its unit
  std::vector<double> values;      // one a recording
  std::vector<std::string> texts;  // as people read them
  int best = -1;                   // index of the best one; -1 when all read the same
};

// One slot of the match: what a recording did with KV block `owner` on `rank`.
struct MatchedStep {
  int rank = 0, step = 0, owner = 0;
  std::vector<std::int64_t> pairs;       // one a recording; -1 where it has no such step
  std::vector<std::int64_t> compute_ns;  // as above
  std::vector<std::int64_t> wait_ns;
};

struct Comparison {
  std::vector<ComparedFigure> figures;
  std::vector<MatchedStep> steps;  // by rank, then step
  std::string headline;  // "zigzag could finish 1.75 times sooner than contiguous: ..." or ""
};

// At least one recording of ours; all of one world_size.
Comparison compare(const std::vector<const Document*>& documents);

}  // namespace ringscope::viz
