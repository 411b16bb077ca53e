// Compares the figures of recordings side by side.
#pragma once

#include <string>
#include <vector>

#include "viz/data/session/document.h"

namespace ringscope::viz {

// A ComparedFigure is one line of the table: the same figure of every recording.
struct ComparedFigure {
  std::string name;                 // with its unit: "balance ceiling"
  std::vector<double> values;       // one per recording
  std::vector<std::string> texts;   // as people read them
  std::vector<std::string> ratios;  // "1.75x" the first one's; "" where that says nothing
  int best = -1;                    // index of the best one; -1 if all read the same
};

// A Difference leads from one recording to another of an equal problem.
struct Difference {
  std::string refusal;          // why there is none: in what the problems differ; else ""
  double from_s = 0, to_s = 0;  // wall times
  // What the causes, as core/tools/explain finds them in both, add to the wall time or save of it, the
  // largest first, with what they cost only together; and in the end what no cause explains. The sum is
  // to_s - from_s.
  struct Part {
    std::string name;
    double seconds = 0;
  };
  std::vector<Part> parts;
  // By how much each figure of the slices of the same rank, pass and step has changed. A cell whose
  // slices are not of the same block's owner, or not in both recordings, is empty.
  WorkTable change;
  std::size_t unpaired = 0;  // such cells
  std::string headline;      // "121 ms instead of 189 ms: -60 ms shared cores, -8 ms all else"
};

// Return how `to` differs from `from`; both are recordings of ours.
Difference difference_between(const Document& from, const Document& to);

struct Comparison {
  // One per recording, all different: what tells it from the others.
  std::vector<std::string> names;
  std::string unequal;  // what differs, so that figures have no ratios and no best one; or ""
  std::vector<ComparedFigure> figures;
  std::vector<Difference> differences;  // one per recording: of it from the first
  std::string headline;  // "zigzag could finish 1.75 times sooner than contiguous: ..." or ""
  std::string remark;    // what the times are, if not those of ranks that each had a core; or ""
};

// Compare the recordings of ours, which must have one world_size; empty if there are none.
Comparison compare(const std::vector<const Document*>& documents);

}  // namespace ringscope::viz
