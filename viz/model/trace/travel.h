// What a scheme's ranks send each other, for pictures. Recordings do not say it, so this is the only
// place of the viewer that tells pictures of schemes apart by the scheme's name.
#pragma once

#include <string_view>

#include "core/trace/event.h"

namespace ringscope::viz {

struct Travel {
  // What goes from rank to rank while the others attend.
  enum What {
    blocks,   // K and V
    queries,  // Q, and after it what has been computed for it; K and V stay
    both,     // queries along the rows of a grid, K and V along its columns
    heads     // all-to-all: ranks have a share of the heads of all rows
  } what = blocks;
  bool is_gathered = false;  // all has come before anything else is attended
  bool visits_all = false;   // at step t, rank r has the block of owner r - t, attended or not
};

inline Travel travel_of(const RunInfo& run) {
  const std::string_view scheme = run.scheme;
  if (scheme == "pass-q") return {Travel::queries};
  if (scheme.starts_with("mesh")) return {Travel::both};
  if (scheme.starts_with("ulysses")) return {Travel::heads, true};
  if (scheme.starts_with("hybrid")) return {Travel::heads};
  if (scheme.starts_with("allgather")) return {Travel::blocks, true, true};
  return {Travel::blocks, false, scheme == "ring"};
}

}  // namespace ringscope::viz
