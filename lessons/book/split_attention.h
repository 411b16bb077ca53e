// One attention layer whose heads and rows are dealt out at the same time: what a rank of it has,
// what it computes, and what it sends.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "core/layer/group_threads.h"
#include "core/layer/group_traffic.h"
#include "core/layer/tensor_parallel.h"
#include "core/ring/wire_counter.h"
#include "lessons/book/cell.h"
#include "lessons/book/problem.h"

namespace ringscope::lessons {

// The layer of `job`, causal, rows dealt out as zigzag. Weights and rows are the same whatever the
// sizes of its groups.
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
        ring({attention_params(shard.shape, 1),
              MaskSpec::parse("causal").for_seqlen(job.shape.seqlen),
              {PartitionKind::zigzag, job.shape.seqlen, context.world_size()}},
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

  // Of [seqlen, width].
  std::vector<float> own_rows(const std::vector<float>& whole) const {
    std::vector<float> rows;
    const Index width = shard.shape.width;
    for (Index row = 0; row < ring.local_rows().size(); ++row) {
      const auto first = whole.begin() + ring.local_rows().global_position(row) * width;
      rows.insert(rows.end(), first, first + width);
    }
    return rows;
  }

  // The largest differences from `one`, which has all rows and heads: of y, of dx, and of the
  // gradients of the rank's weights.
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
  Index ring_bytes = 0;  // over the CP group, but for the sum of the weights' gradients
};

// [run_split
// Threads as ranks; each has a seat in a ring of its TP group and in one of its CP group.
inline std::vector<std::unique_ptr<SplitRank>> run_split(const GroupJob& job) {
  const int size = job.sizes[Axis::tensor] * job.sizes[Axis::context];
  return run_group_threads(
      RankGroups(job.sizes, size),
      [&](GroupSeats& seats) {
        return std::make_unique<SplitRank>(job, seats[Axis::tensor], seats[Axis::context]);
      },
      [](SplitRank& rank) { rank.run(); });
}
// run_split]

// The ranks beside one rank that did all of it, and beside the formulas of what is sent.
struct SplitComparison {
  Table table{{"rank", "tp", "cp", "its ring sends", "its sums send", "y against one rank's"}};
  double y_off = 0, dx_off = 0, weights_off = 0;  // the largest differences; weights: gradients
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
