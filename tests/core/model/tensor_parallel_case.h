// One attention layer and rows for it, by ranks that are in a TP group and in a CP group.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/model/rank_groups.h"
#include "core/model/rank_threads.h"
#include "core/model/tensor_parallel.h"
#include "tests/core/model/model_case.h"

namespace ringscope {

using Values = std::vector<float>;

struct AttentionCase {
  ModelShape shape{
      .layers = 1, .width = 12, .num_heads = 4, .num_heads_kv = 2, .head_dim = 4, .hidden = 1};
  Index batch = 2;
  Index seqlen = 13;
  std::string mask = "causal";
  PartitionKind partition = PartitionKind::zigzag;

  // [batch, seqlen, width]
  Values drawn(std::uint64_t stream) const {
    Values result(static_cast<std::size_t>(batch * seqlen * shape.width));
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = static_cast<float>(2 * unit_interval(random_bits(7, stream, i)) - 1);
    return result;
  }
  // [batch, rows, width] of them.
  Values rows_of(const Values& whole, const LocalRows& rows) const {
    Values result;
    for (Index b = 0; b < batch; ++b)
      for (Index row = 0; row < rows.size(); ++row) {
        const auto first = whole.begin() + (b * seqlen + rows.global_position(row)) * shape.width;
        result.insert(result.end(), first, first + shape.width);
      }
    return result;
  }
};

// What both kinds of layer have in common: a seat at a ring, and rows of x, y, dy and dx.
struct Rows {
  Rows(const AttentionCase& a_case, const ModelShape& its_shape, Communicator& context)
      : ring(attention_problem(its_shape, a_case.batch, a_case.seqlen, MaskSpec::parse(a_case.mask),
                               a_case.partition, context.world_size()),
             context),
        shared(its_shape, ring),
        x(a_case.rows_of(a_case.drawn(1), ring.local_rows())),
        y(a_case.rows_of(a_case.drawn(2), ring.local_rows())),
        dy(a_case.rows_of(a_case.drawn(3), ring.local_rows())),
        dx(x.size()) {}

  ContextRing ring;
  Workspace shared;
  Values x, y, dy, dx;
};

// A rank's heads and rows, by the tensor parallel layer.
struct Part {
  Part(const AttentionCase& a_case, Communicator& tensor_group, Communicator& context_group)
      : tensor(tensor_group),
        context(context_group),
        shard(a_case.shape, tensor.world_size()),
        store(shard.layout, 0, nullptr),
        rows(a_case, shard.shape, context),
        layer(shard, rows.ring, tensor),
        reduction(store.size(), context.world_size(), nullptr) {
    const ModelWeights weights(a_case.shape);
    shard.take(weights.layers[0], ParameterStore(weights.layout, 3, nullptr).values(),
               tensor.rank(), store.values());
  }

  void run() {
    store.clear_gradients();
    layer.forward(store, rows.x.data(), rows.y.data(), rows.shared);
    layer.backward(store, rows.x.data(), rows.dy.data(), rows.dx.data(), rows.shared);
    reduction.add_up(context, store.gradients());
  }

  WireCounter tensor, context;
  AttentionShard shard;
  ParameterStore store;
  Rows rows;
  TensorParallelAttention layer;
  RingAllReduce reduction;
};

// By rank of the world, which talks in a ring of its TP group and in one of its CP group.
inline std::vector<std::unique_ptr<Part>> run_parts(const AttentionCase& a_case, int tensor,
                                                    int context) {
  const int world_size = tensor * context;
  const RankGroups groups({{tensor, context, 1, 1}}, world_size);
  std::map<std::pair<Axis, int>, ThreadRing> rings;  // by the group's first rank
  const auto ring = [&](int rank, Axis axis) -> ThreadRing& {
    return rings.at({axis, groups.members(rank, axis)[0]});
  };
  for (const Axis axis : {Axis::tensor, Axis::context})
    for (const std::vector<int>& group : groups.groups(axis))
      rings.try_emplace({axis, group[0]}, static_cast<int>(group.size()));
  std::vector<std::unique_ptr<Part>> parts(static_cast<std::size_t>(world_size));
  run_on_rank_threads(
      world_size,
      [&](int rank) {
        const PerAxis own = groups.indices(rank);
        ThreadCommunicator of_tensor(ring(rank, Axis::tensor), own[Axis::tensor]);
        ThreadCommunicator of_context(ring(rank, Axis::context), own[Axis::context]);
        parts[rank] = std::make_unique<Part>(a_case, of_tensor, of_context);
        parts[rank]->run();
      },
      [&](int, const RunError& error) {
        for (auto& [group, its_ring] : rings) its_ring.fail(error);
      });
  for (auto& [group, its_ring] : rings) its_ring.throw_if_failed();
  return parts;
}

}  // namespace ringscope
