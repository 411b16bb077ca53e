// The messages of a two-level ring in the books and in recordings.
//
// A rank's hops inside its node and those to the next node go on at the same time, but a recording
// has one lane for what a rank sends and one for what it receives, on which slices don't overlap.
// So hops inside the node are shown as they are, and one between nodes where the lane is free: in
// the longest such part of the time that it takes, or, where there is none, as a slice of no
// length.
#pragma once

#include <vector>

#include "core/sim/account.h"

namespace ringscope {

enum class Way { here, next_node };

class TwoLevelHops {
 public:
  TwoLevelHops(const SimulationRequest& request, Account& account);

  // Hops of a way to or from a rank in the order in which they go on. `span`: as in Account.
  void moved(Way way, const Hop& hop, TimeSpan span);
  // Shows what has moved in the pass, which began at `origin_s` of the run.
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
