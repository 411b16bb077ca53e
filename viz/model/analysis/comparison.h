// Compares the figures of recordings side by side.
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

struct Comparison {
  // One per recording, all different: what tells it from the others.
  std::vector<std::string> names;
  std::string unequal;  // what differs, so that figures have no ratios and no best one; or ""
  std::vector<ComparedFigure> figures;
  std::string headline;  // "zigzag could finish 1.75 times sooner than contiguous: ..." or ""
};

// Compare the recordings of ours, which must have one world_size; empty if there are none.
Comparison compare(const std::vector<const Document*>& documents);

}  // namespace ringscope::viz
