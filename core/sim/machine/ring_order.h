// In which order the ranks of a topology follow each other around the ring. A round of the ring is
// over when its slowest hop is, so that is what an order is judged by, and among equals by the sum
// of the hops. As in the salesman's problem there are too many orders to try them all:
//
//   up to 8 ranks    all orders
//   up to 8 nodes    nodes kept whole, and all tours of them
//   above            nodes kept whole; a tour that goes on to the nearest node (by the seconds of a
//                    hop that is alone, and fewer joins among equals), and the order that the nodes
//                    are given in, both improved by reversing parts of them (2-opt) until no
//                    reversal makes the slower of the two hops that it changes faster
//
// and never an order that is worse than that of the ranks' numbers.
#pragma once

#include <string_view>
#include <vector>

#include "core/cost/job.h"
#include "core/cost/time.h"
#include "core/sim/machine/machine.h"
#include "core/sim/machine/topology.h"

namespace ringscope {

// ranks: by their numbers; topology: by what joins them.
enum class RingOrder { ranks, topology };

inline constexpr RingOrder kAllRingOrders[] = {RingOrder::ranks, RingOrder::topology};

constexpr std::string_view name_of(RingOrder order) {
  return order == RingOrder::ranks ? "ranks" : "topology";
}

// The seconds of a round in which every rank sends to its next one at once.
struct RoundCost {
  double slowest = 0, sum = 0;
  auto operator<=>(const RoundCost&) const = default;
};

// `order`: the rank at each place of the ring.
RoundCost cost_of_round(const Topology& topology, const std::vector<int>& order, double bytes);

// The rank at each place of the ring, for hops of `bytes`. Two-level rings keep nodes whole, and go
// by the nodes' order where the ranks' is asked for; what they are judged by is the round between
// nodes. Ulysses has no ring, and goes by the ranks' numbers.
std::vector<int> ring_order(const Topology& topology, RingOrder by, JobScheme scheme, double bytes);

// The machine that a scheme runs on when rank order[k] is at place k: paths of the messages that
// the scheme sends, and speeds. Rates are taken as they are. Throws InputError for a two-level ring
// of nodes that differ in their number of ranks, or that `order` does not keep whole.
Machine machine_on(const Topology& topology, const Rates& rates, const std::vector<int>& order,
                   JobScheme scheme);

}  // namespace ringscope
