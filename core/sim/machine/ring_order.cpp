#include "core/sim/machine/ring_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace ringscope {
namespace {

constexpr int kMostTried = 8;    // ranks or nodes for which all orders are tried: 7! of them
constexpr int kMostSweeps = 50;  // of 2-opt, over all pairs of hops

using Order = std::vector<int>;

Order by_number(int count) {
  Order order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

RoundCost cost_of(const std::vector<Path>& paths, double bytes) {
  RoundCost cost;
  for (const Path& path : paths) {
    cost.slowest = std::max(cost.slowest, path.seconds(bytes));
    cost.sum += path.seconds(bytes);
  }
  return cost;
}

std::vector<std::pair<int, int>> messages_to_next(const Order& order) {
  std::vector<std::pair<int, int>> messages;
  messages.reserve(order.size());
  for (std::size_t k = 0; k < order.size(); ++k)
    messages.emplace_back(order[k], order[k + 1 == order.size() ? 0 : k + 1]);
  return messages;
}

// Return the best of all orders that begin with the lowest number, and among equals the first.
template <class Cost>
Order best_of_all(Order order, Cost&& cost) {
  std::sort(order.begin(), order.end());
  Order best = order;
  RoundCost least = cost(best);
  while (std::next_permutation(order.begin() + 1, order.end()))
    if (const RoundCost here = cost(order); here < least) {
      least = here;
      best = order;
    }
  return best;
}

// The cost of a single hop between any two nodes.
class HopTable {
 public:
  HopTable(const Topology& topology, double bytes) : nodes_(topology.nodes()) {
    seconds_.resize(static_cast<std::size_t>(nodes_) * nodes_);
    for (int a = 0; a < nodes_; ++a)
      for (int b = 0; b < a; ++b) {
        // Fewer joins leave more room for other messages.
        const double prefer_near = 1 + 1e-3 * topology.joins_between_nodes(a, b);
        const double seconds = topology.path_between_nodes(a, b).seconds(bytes) * prefer_near;
        at(a, b) = at(b, a) = static_cast<float>(seconds);
      }
  }
  float seconds(int a, int b) const { return seconds_[static_cast<std::size_t>(a) * nodes_ + b]; }

 private:
  float& at(int a, int b) { return seconds_[static_cast<std::size_t>(a) * nodes_ + b]; }
  int nodes_;
  std::vector<float> seconds_;
};

Order nearest_neighbours(const HopTable& table, int nodes) {
  Order tour = by_number(nodes);
  for (auto here = tour.begin(); here + 1 != tour.end(); ++here)
    std::iter_swap(here + 1, std::min_element(here + 1, tour.end(), [&](int a, int b) {
                     const float to_a = table.seconds(*here, a), to_b = table.seconds(*here, b);
                     return to_a < to_b || (to_a == to_b && a < b);
                   }));
  return tour;
}

// Reverse parts of the tour, which replaces the two hops at their ends. Each reversal makes the
// list of hops, slowest first, smaller in lexicographic order, so the search ends.
void improve_by_reversals(const HopTable& table, Order& tour) {
  const std::size_t n = tour.size();
  bool has_improved = true;
  for (int sweep = 0; sweep < kMostSweeps && has_improved; ++sweep) {
    has_improved = false;
    for (std::size_t i = 0; i + 2 < n; ++i)
      for (std::size_t j = i + 2; j < n; ++j) {
        const int after_j = tour[j + 1 == n ? 0 : j + 1];
        if (after_j == tour[i]) continue;
        const auto both = [&](int a, int b, int c, int d) {
          const float one = table.seconds(a, b), other = table.seconds(c, d);
          return std::pair{std::max(one, other), one + other};
        };
        if (both(tour[i], tour[j], tour[i + 1], after_j) <
            both(tour[i], tour[i + 1], tour[j], after_j)) {
          std::reverse(tour.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       tour.begin() + static_cast<std::ptrdiff_t>(j) + 1);
          has_improved = true;
        }
      }
  }
}

// Return the best tour of the nodes, where each sends `messages` to the next one at once.
Order tour_of_nodes(const Topology& topology, double bytes, int messages) {
  const Order given = by_number(topology.nodes());
  if (topology.all_nodes_alike()) return given;
  const auto cost = [&](const Order& tour) {
    return cost_of(topology.round_of_nodes(tour, messages), bytes);
  };
  if (topology.nodes() <= kMostTried) return best_of_all(given, cost);
  const HopTable table(topology, bytes);
  Order best = given;
  for (Order tour : {given, nearest_neighbours(table, topology.nodes())}) {
    if (cost(tour) < cost(best)) best = tour;
    improve_by_reversals(table, tour);
    if (cost(tour) < cost(best)) best = std::move(tour);
  }
  return best;
}

Order ranks_along(const Topology& topology, const Order& tour) {
  Order order;
  order.reserve(topology.world_size());
  for (const int node : tour)
    order.insert(order.end(), topology.ranks_of(node).begin(), topology.ranks_of(node).end());
  return order;
}

Order ring_by_topology(const Topology& topology, double bytes) {
  const Order by_ranks = by_number(topology.world_size());
  if (topology.nodes() == 1) return by_ranks;
  const auto cost = [&](const Order& order) { return cost_of_round(topology, order, bytes); };
  if (topology.world_size() <= kMostTried) return best_of_all(by_ranks, cost);
  Order whole = ranks_along(topology, tour_of_nodes(topology, bytes, 1));
  return cost(whole) < cost(by_ranks) ? whole : by_ranks;
}

std::size_t ranks_a_node(const Topology& topology) {
  const std::size_t first = topology.ranks_of(0).size();
  for (int node = 1; node < topology.nodes(); ++node)
    if (const std::size_t here = topology.ranks_of(node).size(); here != first)
      throw InputError(
          fmt::format("two-level: {} ranks on {} and {} on {}; accepted: as many on every node",
                      first, topology.name_of_node(0), here, topology.name_of_node(node)));
  return first;
}

void set_two_level_paths(const Topology& topology, const Order& order, Scheme scheme,
                         Machine& machine) {
  const std::size_t n = order.size(), here = ranks_a_node(topology);
  std::vector<std::pair<int, int>> messages;
  for (std::size_t k = 0; k < n; ++k) {
    const int node = topology.node_of(order[k]);
    if (node != topology.node_of(order[k / here * here]))
      throw InputError(fmt::format(
          "two-level: rank {} of {} among those of {}; accepted: an order that keeps nodes whole",
          order[k], topology.name_of_node(node),
          topology.name_of_node(topology.node_of(order[k / here * here]))));
    machine.to_next_here.push_back(topology.path_inside(node));
    messages.emplace_back(order[k], order[(k + here) % n]);
  }
  machine.to_next_node = topology.round(messages);
  if (scheme == Scheme::two_level || topology.all_nodes_alike()) return;
  Order tour;
  for (std::size_t k = 0; k < n; k += here) tour.push_back(topology.node_of(order[k]));
  machine.between_nodes.resize(tour.size() * tour.size());
  for (std::size_t ahead = 1; ahead < tour.size(); ++ahead) {
    const auto paths = topology.round_of_nodes(tour, static_cast<int>(here), ahead);
    for (std::size_t from = 0; from < tour.size(); ++from)
      machine.between_nodes[from * tour.size() + (from + ahead) % tour.size()] = paths[from];
  }
}

}  // namespace

RoundCost cost_of_round(const Topology& topology, const std::vector<int>& order, double bytes) {
  return cost_of(topology.round(messages_to_next(order)), bytes);
}

std::vector<int> ring_order(const Topology& topology, RingOrder by, Scheme scheme, double bytes) {
  if (scheme != Scheme::ring && scheme != Scheme::allgather && scheme != Scheme::ulysses) {
    const Order tour =
        by == RingOrder::ranks
            ? by_number(topology.nodes())
            : tour_of_nodes(topology, bytes, static_cast<int>(topology.ranks_of(0).size()));
    return ranks_along(topology, tour);
  }
  if (by == RingOrder::ranks || scheme == Scheme::ulysses) return by_number(topology.world_size());
  return ring_by_topology(topology, bytes);
}

Machine machine_on(const Topology& topology, const Rates& rates, const std::vector<int>& order,
                   Scheme scheme) {
  Machine machine;
  machine.world_size = topology.world_size();
  machine.rates = rates;
  if (topology.has_slow_ranks())
    for (const int rank : order) machine.speed.push_back(topology.speed_of(rank));
  if (scheme != Scheme::ring && scheme != Scheme::allgather && scheme != Scheme::ulysses) {
    // Hops inside nodes and hops between them, as of a two-level ring.
    set_two_level_paths(topology, order, scheme, machine);
  } else if (scheme == Scheme::ulysses) {
    const std::vector<Path> by_rank = topology.all_to_all();
    for (const int rank : order) machine.to_all.push_back(by_rank[rank]);
  } else {
    machine.to_next =
        topology.round(messages_to_next(order),
                       scheme == Scheme::allgather ? Spread::all_links : Spread::one_link);
  }
  return machine;
}

}  // namespace ringscope
