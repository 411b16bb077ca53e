// What a scheme's ranks send each other, for pictures and words. Recordings do not say it, so this is the
// only place of the viewer that tells such pictures apart by a scheme's name.
#pragma once

#include <charconv>
#include <string_view>

#include "core/trace/event.h"

namespace ringscope::viz {

struct Travel {
  // What goes from rank to rank while others are attended.
  enum What {
    blocks,   // K and V
    queries,  // Q, and after it what has been computed for it; K and V stay
    both,     // queries along the rows of a grid, K and V along its columns
    heads  // all-to-all: ranks attend a share of the heads for all rows, of their group or of all
  } what = blocks;
  bool is_gathered = false;  // all has come before anything is attended, and moves no more
  bool visits_all = false;   // at step t, rank r has the block of owner r - t, attended or not
  int group = 0;             // consecutive ranks: a row of the grid, or those that exchange heads

  bool moves_queries() const { return what == queries || what == both; }
  // Return whether each of so many ranks attends its heads for all rows, rather than blocks of rows.
  bool shares_heads(int ranks) const { return what == heads && group >= ranks; }
  // Name what a message carries.
  std::string_view name_of(Pass pass, Payload payload, int src, int dst) const {
    const bool within = group > 0 && src / group == dst / group;
    if (what == heads && within) return "heads";
    if (what != queries && !(what == both && within)) return payload == Payload::kv ? "KV" : "dKV";
    if (payload == Payload::kv) return "Q";
    return pass == Pass::forward ? "O" : "dQ";
  }
};

inline Travel travel_of(const RunInfo& run) {
  const std::string_view scheme = run.scheme, kind = scheme.substr(0, scheme.find(':'));
  // The number behind the last ':' or 'x'.
  const auto group = [&scheme] {
    int ranks = 0;
    const std::string_view number = scheme.substr(scheme.find_last_of(":x") + 1);
    std::from_chars(number.data(), number.data() + number.size(), ranks);
    return ranks;
  };
  if (kind == "pass-q") return {.what = Travel::queries};
  if (kind == "mesh") return {.what = Travel::both, .group = group()};
  if (kind == "hybrid") return {.what = Travel::heads, .group = group()};
  if (kind == "ulysses")
    return {.what = Travel::heads, .is_gathered = kind == scheme, .group = run.world_size};
  if (scheme == "allgather") return {.is_gathered = true, .visits_all = true};
  return {.visits_all = scheme == "ring"};
}

}  // namespace ringscope::viz
