// What a recorded scheme's ranks send each other, for pictures and words.
#pragma once

#include <string_view>

#include "core/ring/scheme.h"
#include "core/trace/event.h"

namespace ringscope::viz {

struct Travel {
  Travels what = Travels::blocks;
  bool is_gathered = false;  // all has come before anything is attended, and moves no more
  bool visits_all = false;   // at step t, rank r has the block of owner r - t, attended or not
  int group = 0;             // consecutive ranks: a row of the grid, or those that exchange heads

  bool moves_queries() const { return what == Travels::queries || what == Travels::both; }
  // Return whether each of so many ranks attends its heads for all rows, rather than blocks of rows.
  bool shares_heads(int ranks) const { return what == Travels::heads && group >= ranks; }
  // Name what a message carries.
  std::string_view name_of(Pass pass, Payload payload, int src, int dst) const {
    const bool within = group > 0 && src / group == dst / group;
    if (what == Travels::heads && within) return "heads";
    if (what != Travels::queries && !(what == Travels::both && within))
      return payload == Payload::kv ? "KV" : "dKV";
    if (payload == Payload::kv) return "Q";
    return pass == Pass::forward ? "O" : "dQ";
  }
};

inline Travel travel_of(const RunInfo& run) {
  const auto named = read_scheme(run.scheme);
  if (!named) return {};
  const auto& [scheme, numbers] = *named;
  Travel travel{.what = scheme->travels};
  const bool in_one_piece = numbers[0] == 1;
  travel.is_gathered =
      in_one_piece && (scheme->course == Course::gathers || scheme->course == Course::heads);
  travel.visits_all =
      scheme->course == Course::steps || (in_one_piece && scheme->course == Course::gathers);
  if (travel.what == Travels::both) travel.group = numbers[1];
  if (travel.what == Travels::heads)
    travel.group = layout_of(*scheme, run.world_size, numbers).heads_group;
  return travel;
}

}  // namespace ringscope::viz
