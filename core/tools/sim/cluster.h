// A cluster of nodes: ranks are joined by links inside a node, and nodes by links around one switch that
// is never the bottleneck. From this a machine's paths are derived.
//
// Inside a node every rank has a port of its own. When all ranks of a node send to another node at once,
// each has link's rate x min(1, links / messages), at all times, as if all of them moved: it does not get
// more when some are over early or have not begun. That is pessimistic for ranks out of step, but keeps
// all times monotone in every share. A message goes through one of the links side by side, but an
// all-gather spreads its messages over all of them, as libraries do that run a ring over each network
// interface (NCCL's channels).
#pragma once

#include "core/base/names.h"
#include "core/ring/problem.h"
#include "core/tools/cost/hardware.h"
#include "core/tools/sim/machine.h"

namespace ringscope {

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
