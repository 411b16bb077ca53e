// The machine of a simulation as the schemes see it: its ranks, its paths, and chance; and how long
// tasks (graph.h) take on it. A random draw is a pure function of seed, purpose, rank and step, so no
// order, pace or scheme changes it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/names.h"
#include "core/base/random.h"
#include "core/ring/problem.h"
#include "core/tools/cost/hardware.h"
#include "core/tools/cost/measure.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/graph.h"
#include "core/trace/event.h"

namespace ringscope {

// What a draw is for.
enum class JitterOf : std::uint64_t { compute = 0, kv_hop = 1, gradient_hop = 2 };

// Draw from the exponential distribution of mean 1. A hop draws for its sender.
inline double jitter_draw(std::uint64_t seed, JitterOf what, Pass pass, int rank, int step) {
  const std::uint64_t stream =
      2 * static_cast<std::uint64_t>(what) + static_cast<std::uint64_t>(pass);
  const std::uint64_t index = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(step)) << 32) |
                              static_cast<std::uint32_t>(rank);
  return exponential(seed, stream, index);
}

// ---
// The machine says how fast each rank computes and what a message costs on each path that a scheme
// uses. Where these numbers come from (nodes, shared links) is below.

// The path of a message, as wide as it is for this message when all that share it move at once.
struct Path {
  double bytes_per_s = 0;
  double latency_s = 0;  // per message, in addition to its bytes; it occupies the path as they do

  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
};

struct Machine {
  int world_size = 1;
  Rates rates;
  double step_s = 0;          // extra cost of a step that has pairs, per rank: launching, posting
  double backward_steps = 1;  // how many times as much a step of the backward pass costs

  // Each has world_size entries, or is empty: all are alike (speed 1, the path that `rates` give).
  std::vector<double> speed;  // of computing: 0.5 takes twice as long
  std::vector<Path> to_next;  // from rank r to r+1: ring, allgather
  std::vector<Path>
      to_next_here;  // two_level: to the next rank of the node, from the last to the first
  std::vector<Path> to_next_node;  // two_level: to the same place in the next node
  std::vector<Path> to_all;        // ulysses: total bytes to all others, and one message's latency

  // A computation takes (1 + jitter x) times as long, a hop (1 + hop_jitter x) times. x is drawn
  // from the exponential distribution of mean 1, anew for each rank, pass and step.
  double jitter = 0, hop_jitter = 0;
  std::uint64_t seed = 0;

  // Number of processors that ranks share equally while more of them compute; 0: each has its own.
  int cores = 0;
  // Measured costs of a ring with K buffers, or an all-gather, of threads on `cores` processors,
  // which also copy the blocks. They replace rates, links and step_s (core/tools/cost/measure.h).
  std::shared_ptr<const CpuFigures> cpu = nullptr;

  double step_seconds(Pass pass) const {
    return step_s * (pass == Pass::forward ? 1 : backward_steps);
  }
  Path path_to_next(int rank) const { return path(to_next, rank); }
  Path path_to_next_here(int rank) const { return path(to_next_here, rank); }
  Path path_to_next_node(int rank) const { return path(to_next_node, rank); }
  Path path_to_all(int rank) const { return path(to_all, rank); }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  Path path(const std::vector<Path>& paths, int rank) const {
    return paths.empty() ? Path{rates.bytes_per_s, rates.latency_s} : paths[index(rank)];
  }
};

// Return the seconds that each task of `graph`, which belongs to `job`, takes on a processor or link of
// its own: attentions and hops, and on a measured CPU all tasks.
std::vector<double> durations_on(const TaskGraph& graph, const Problem& job,
                                 const Machine& machine);

// ---
// A cluster of nodes: ranks are joined by links inside a node, and nodes by links around one switch that
// is never the bottleneck. From this a machine's paths are derived.
//
// Inside a node every rank has a port of its own. When all ranks of a node send to another node at once,
// each has link's rate x min(1, links / messages), at all times, as if all of them moved: it does not get
// more when some are over early or have not begun. That is pessimistic for ranks out of step, but keeps
// all times monotone in every share. A message goes through one of the links side by side, but an
// all-gather spreads its messages over all of them, as libraries do that run a ring over each network
// interface (NCCL's channels).

// How ranks are numbered. block: consecutive ranks share a node; cyclic: rank r is on node r mod nodes.
enum class Placement { block, cyclic };
constexpr auto names_of(Placement) { return list_of({"block", "cyclic"}); }

struct Cluster {
  int world_size = 1;
  int nodes = 1;
  Link inside;   // from every rank to any other of its node
  Link between;  // from a node to any other, one per network interface (NIC)
  int nics = 1;
  Placement placement = Placement::block;

  int node_of(int rank) const;
  // Return the ranks on `node`.
  int ranks_on(int node) const { return world_size / nodes + (node < world_size % nodes ? 1 : 0); }
};

// Return the machine that a scheme runs on: the paths of its messages, and `rates`. Throw InputError where
// the nodes of a scheme with messages inside them have different numbers of ranks. `rings` is
// Problem::rings().
Machine machine_on(const Cluster& cluster, const Rates& rates, const Scheme* scheme, int rings = 0);

}  // namespace ringscope
