// Choose in which order the ranks of a topology follow each other around the ring. A round of the
// ring lasts as long as its slowest hop, so an order is judged by that, and among equals by the sum
// of the hops. As in the travelling salesman problem there are too many orders to try them all:
//
//   up to 8 ranks    all orders
//   up to 8 nodes    nodes kept whole, and all tours of them
//   above            nodes kept whole. The order in which the nodes are given, and a tour that
//                    always goes to the nearest node (by the seconds of a single hop, and among
//                    equals by fewer joins), are both improved by reversing parts of them (2-opt)
//                    until no reversal makes the slower of the two hops that it changes faster
//
// The result is never worse than the order of the ranks' numbers.
#pragma once

#include <vector>

#include "core/cost/time.h"
#include "core/ring/problem.h"
#include "core/sim/machine/machine.h"
#include "core/sim/machine/topology.h"

namespace ringscope {

// ranks: by their numbers; topology: by the links between them.
enum class RingOrder { ranks, topology };

// The seconds of a round in which every rank sends to its next one at once.
struct RoundCost {
  double slowest = 0, sum = 0;
  auto operator<=>(const RoundCost&) const = default;
};

// Return the cost of a round of `bytes` per message. `order` is the rank at each place of the ring.
RoundCost cost_of_round(const Topology& topology, const std::vector<int>& order, double bytes);

// Return the rank at each place of the ring, for hops of `bytes`. Two-level rings keep nodes whole:
// they use the nodes' order where the ranks' is asked for, and are judged by the round between
// nodes. Ulysses has no ring, so it uses the ranks' numbers.
std::vector<int> ring_order(const Topology& topology, RingOrder by, Scheme scheme, double bytes);

// Return the machine that a scheme runs on when rank order[k] is at place k: the paths of its
// messages, the speeds, and `rates` unchanged. Throw InputError for a two-level ring of nodes with
// different numbers of ranks, or that `order` does not keep whole.
Machine machine_on(const Topology& topology, const Rates& rates, const std::vector<int>& order,
                   Scheme scheme);

}  // namespace ringscope
