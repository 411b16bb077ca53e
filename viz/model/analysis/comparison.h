// Compares recordings side by side. They are matched by (rank, step, owner) and not by time.
#pragma once

#include <string>
#include <vector>

#include "viz/model/session/document.h"

namespace ringscope::viz {

// A ComparedFigure is one line of the table: the same figure of every recording.
struct ComparedFigure {
  std::string name;                 // with its unit: "balance ceiling"
  std::vector<double> values;       // one per recording
  std::vector<std::string> texts;   // as people read them
  std::vector<std::string> ratios;  // "1.75x" the first one's; "" where that says nothing
  int best = -1;                    // index of the best one; -1 if all read the same
};

// A MatchedStep is what each recording did with KV block `owner` on `rank`.
struct MatchedStep {
  int rank = 0, step = 0, owner = 0;
  std::vector<std::int64_t> pairs;       // one per recording; -1 where it has no such step
  std::vector<std::int64_t> compute_ns;  // as above
  std::vector<std::int64_t> wait_ns;
};

struct Comparison {
  std::vector<std::string>
      names;  // one per recording, all different: what tells it from the others
  std::string
      unequal;  // why figures have no ratios and no best one: "of unequal problems: ..." or ""
  std::vector<ComparedFigure> figures;
  std::vector<MatchedStep> steps;  // by rank, then step
  std::string headline;  // "zigzag could finish 1.75 times sooner than contiguous: ..." or ""
};

// Compare the recordings of ours, which must have one world_size; empty if there are none.
Comparison compare(const std::vector<const Document*>& documents);

}  // namespace ringscope::viz
