// Tables of rank groups: a rank's own, what they send, and what other sizes would make of it.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/layer/group_traffic.h"
#include "lessons/book/cell.h"

namespace ringscope::lessons {

// "1, 3, 5"
inline std::string listed(const std::vector<int>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ", "));
}

// The rank's groups, one of each axis, all of two ranks or more.
inline Table own_groups_table(const RankGroups& world, int rank) {
  Table table({"axis", fmt::format("index of rank {}", rank), "its group", "from one to the next"});
  for (const Axis axis : kAllAxes) {
    const std::vector<int> group = world.members(rank, axis);
    table.row(std::string(name_of(axis)), world.indices(rank)[axis], listed(group),
              group[1] - group[0]);
  }
  return table;
}

// What a rank sends in a training step of `job`, and how its groups lie on nodes.
inline Table talk_table(const GroupJob& job, int ranks_a_node) {
  int world_size = 1;
  for (const int size : job.sizes.numbers) world_size *= size;
  const RankGroups world(job.sizes, world_size);
  const GroupTraffic sent = group_traffic(job);
  Table table({"group", "talks about", "how often", "bytes", "meanwhile", "on one node"});
  const auto row = [&](const char* who, const char* what, const Talk& talk, const char* meanwhile,
                       const std::vector<Axis>& axes) {
    const GroupPlacement lie = placement(world, axes, ranks_a_node);
    table.row(who, what, talk.times, bytes(talk.bytes), meanwhile,
              fmt::format("{} of {}", lie.inside, lie.inside + lie.crossing));
  };
  row("tensor", "sums of y, of dx", sent.tensor, "it waits", {Axis::tensor});
  row("context", "hops of K, V, dK, dV", sent.context, "it attends", {Axis::context});
  row("pipeline", "rows, or their dx", sent.pipeline, "other sequences", {Axis::pipeline});
  row("context × data", "a sum of gradients", sent.gradients, "earlier layers", kGradientAxes);
  return table;
}

// TP x CP ranks in several ways, and what a rank sends.
struct SplitWays {
  Table table{{"TP", "CP", "block of a hop", "the ring", "sums over TP", "together"}};
  std::vector<double> blocks, together;  // bytes
};

inline SplitWays split_ways(GroupJob job, int world_size, const std::vector<int>& tensor_sizes) {
  SplitWays ways;
  for (const int tensor : tensor_sizes) {
    job.sizes = {{tensor, world_size / tensor, 1, 1}};
    const GroupTraffic sent = group_traffic(job);
    ways.blocks.push_back(ring_block_bytes(job));
    ways.together.push_back(sent.context.bytes + sent.tensor.bytes);
    ways.table.row(tensor, world_size / tensor, bytes(ways.blocks.back()),
                   bytes(sent.context.bytes), bytes(sent.tensor.bytes),
                   bytes(ways.together.back()));
  }
  return ways;
}

// What is said of heads that can't be dealt out; "" when they can.
inline std::string refusal_of_heads(Index num_heads, Index num_heads_kv, int tensor_size) {
  try {
    check_tensor_heads(num_heads, num_heads_kv, tensor_size);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace ringscope::lessons
