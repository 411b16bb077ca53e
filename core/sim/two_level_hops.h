// The messages of a two-level ring, in the books and in recordings.
//
// A rank's hops inside its node and to the next node run at the same time, but a recording has one
// lane for sends and one for receives, whose slices must not overlap. Hops inside the node are
// therefore shown as they are. A hop between nodes is shown in the longest part of its time in
// which the lane is free, or as a slice of no length if there is none.
#pragma once

#include <vector>

#include "core/sim/account.h"

namespace ringscope {

enum class Way { here, next_node };

class TwoLevelHops {
 public:
  TwoLevelHops(const SimulationRequest& request, Account& account);

  // Add a hop. Call in the order in which a way's hops run. `span` is as in Account.
  void moved(Way way, const Hop& hop, TimeSpan span);
  // Show what moved in the pass, which began at `origin_s` of the run.
  void end_pass(double origin_s);

 private:
  struct Slice {
    TimeSpan span;
    Hop hop;
    Way way;
  };
  struct Lanes {
    std::vector<Slice> here, next_node;
  };

  bool is_recorded(int rank) const {
    return has_events_ && request_.recorded[static_cast<std::size_t>(rank)];
  }
  void show(int rank, Lane lane, Lanes& slices, double origin_s);

  const SimulationRequest& request_;
  Account& account_;
  bool has_events_;
  std::vector<Lanes> sent_, received_;  // by rank
};

}  // namespace ringscope
