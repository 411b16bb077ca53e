// Tables of rank groups: a rank's groups, what they send, and the effect of other sizes.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/rank_groups.h"
#include "core/model/rank_threads.h"
#include "core/model/tensor_parallel.h"
#include "core/ring/wire_counter.h"
#include "lessons/book/page.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {

// Write ranks as "1, 3, 5".
inline std::string listed(const std::vector<int>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ", "));
}

// Tabulate the rank's group of each axis. Each group must have two ranks or more.
inline Table own_groups_table(const RankGroups& world, int rank) {
  Table table({"axis", fmt::format("index of rank {}", rank), "its group", "from one to the next"});
  for (const Axis axis : kAllAxes) {
    const std::vector<int> group = world.members(rank, axis);
    table.row(std::string(name_of(axis)), world.indices(rank)[axis], listed(group),
              group[1] - group[0]);
  }
  return table;
}

// Tabulate what a rank sends in a training step of `job`, and how its groups lie on nodes.
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

// Several splits into TP x CP ranks, and what a rank sends in each.
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

// Return the error for heads that can't be divided among ranks, or "" if they can.
inline std::string refusal_of_heads(Index num_heads, Index num_heads_kv, int tensor_size) {
  try {
    check_tensor_heads(num_heads, num_heads_kv, tensor_size);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

// ---
// One attention layer divides its heads and its rows at the same time. The classes below hold what
// a rank of it has, computes and sends.

// Return the layer of `job`, which is causal with zigzag rows. Weights and rows do not depend on
// the sizes of its groups.
inline ModelShape layer_of(const GroupJob& job) {
  return {.layers = 1,
          .width = job.width,
          .num_heads = job.shape.num_heads,
          .num_heads_kv = job.shape.num_heads_kv,
          .head_dim = job.shape.head_dim,
          .hidden = 1};
}

struct SplitRank {
  SplitRank(const GroupJob& job, Communicator& tensor_group, Communicator& context_group)
      : tensor(tensor_group),
        context(context_group),
        shard(layer_of(job), tensor.world_size()),
        ring(attention_problem(shard.shape, 1, job.shape.seqlen, MaskSpec::parse("causal"),
                               PartitionKind::zigzag, context.world_size()),
             context),
        shared(shard.shape, ring),
        store(shard.layout, 0, nullptr),
        layer(shard, ring, tensor),
        reduction(store.size(), context.world_size(), nullptr),
        x(own_rows(random_values(RandomTensor::q, job.shape.seqlen * job.width))),
        dy(own_rows(random_values(RandomTensor::dout, job.shape.seqlen * job.width))),
        y(x.size()),
        dx(x.size()) {
    const ModelWeights whole(layer_of(job));
    shard.take(whole.layers[0], ParameterStore(whole.layout, 1, nullptr).values(), tensor.rank(),
               store.values());
  }

  void run() {
    store.clear_gradients();
    layer.forward(store, x.data(), y.data(), shared);
    layer.backward(store, x.data(), dy.data(), dx.data(), shared);
    ring_bytes = context.sent().bytes;
    reduction.add_up(context, store.gradients());
  }

  // Return the rank's rows of a tensor [seqlen, width].
  std::vector<float> own_rows(const std::vector<float>& whole) const {
    std::vector<float> rows;
    const Index width = shard.shape.width;
    for (Index row = 0; row < ring.local_rows().size(); ++row) {
      const auto first = whole.begin() + ring.local_rows().global_position(row) * width;
      rows.insert(rows.end(), first, first + width);
    }
    return rows;
  }

  // Return the largest differences from `one`, which has all rows and heads: of y, of dx, and of
  // the gradients of the rank's weights.
  double y_difference(const SplitRank& one) const { return largest_difference(y, own_rows(one.y)); }
  double dx_difference(const SplitRank& one) const {
    return largest_difference(dx, own_rows(one.dx));
  }
  double gradient_difference(const SplitRank& one) const {
    std::vector<float> expected(static_cast<std::size_t>(store.size()));
    shard.take(one.shard.weights, one.store.gradients(), tensor.rank(), expected.data());
    return largest_difference(
        std::vector<float>(store.gradients(), store.gradients() + store.size()), expected);
  }

  WireCounter tensor, context;
  AttentionShard shard;
  ContextRing ring;
  Workspace shared;
  ParameterStore store;
  TensorParallelAttention layer;
  RingAllReduce reduction;
  std::vector<float> x, dy, y, dx;
  Index ring_bytes = 0;  // over the CP group, without the sum of the weights' gradients
};

// Run each rank on a thread that has a seat in a ring of its TP group and in one of its CP group.
inline std::vector<std::unique_ptr<SplitRank>> run_split(const GroupJob& job) {
  const int size = job.sizes[Axis::tensor] * job.sizes[Axis::context];
  return run_group_threads(
      RankGroups(job.sizes, size),
      [&](GroupSeats& seats) {
        return std::make_unique<SplitRank>(job, seats[Axis::tensor], seats[Axis::context]);
      },
      [](SplitRank& rank) { rank.run(); });
}

// Compares the ranks with one rank that did all the work, and their bytes with the formulas.
struct SplitComparison {
  Table table{{"rank", "tp", "cp", "its ring sends", "its sums send", "y against one rank's"}};
  double y_off = 0, dx_off = 0, weights_off = 0;  // largest differences; weights: of gradients
  bool as_formulas = true;
};

inline SplitComparison compare(const GroupJob& job) {
  SplitComparison found;
  GroupJob whole = job;
  whole.sizes = {{1, 1, 1, 1}};
  const auto one = run_split(whole), parts = run_split(job);
  const GroupTraffic formula = group_traffic(job);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const SplitRank& part = *parts[rank];
    const auto ring = static_cast<double>(part.ring_bytes);
    const auto sums = static_cast<double>(part.tensor.sent().bytes);
    found.table.row(rank, part.tensor.rank(), part.context.rank(), bytes(ring), bytes(sums),
                    rounding(part.y_difference(*one[0]), 1e-6));
    found.as_formulas &= ring == formula.context.bytes && sums == formula.tensor.bytes;
    keep_larger(found.y_off, part.y_difference(*one[0]));
    keep_larger(found.dx_off, part.dx_difference(*one[0]));
    keep_larger(found.weights_off, part.gradient_difference(*one[0]));
  }
  return found;
}

}  // namespace ringscope::lessons
