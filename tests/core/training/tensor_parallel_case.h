// Parts of a small model on ranks that are in a tensor, a context and a data group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/training/rank_groups.h"
#include "tests/core/training/model_case.h"

namespace ringscope {

// How many ranks each kind of group has.
struct Layout {
  int tensor = 1, context = 1, data = 1;

  int ranks() const { return tensor * context * data; }
  std::string name() const {
    return "tensor " + std::to_string(tensor) + ", context " + std::to_string(context) + ", data " +
           std::to_string(data);
  }
};

// A rank's part of the model, and its rows of its share of the batch.
struct Part {
  Part(const ModelCase& a_case, const Layout& layout, PartitionKind partition, Communicator& comm)
      : groups({{layout.tensor, layout.context, 1, layout.data}}, comm.world_size()),
        tensor(comm, groups.members(comm.rank(), Axis::tensor)),
        context(comm, groups.members(comm.rank(), Axis::context)),
        gradients(comm, groups.members(comm.rank(), kGradientAxes)),
        ring(context),
        weights(a_case.shape, layout.tensor),
        replica(weights,
                attention_problem(weights.shape, a_case.batch / layout.data, a_case.seqlen,
                                  MaskSpec::parse(a_case.mask), partition, layout.context),
                ring, a_case.seed, a_case.kind, nullptr, a_case.chunks, {&tensor, &gradients}) {}

  void run(const ModelCase& a_case) {
    const Index own = a_case.batch * context.world_size() / gradients.world_size();
    const Index first = gradients.rank() / context.world_size() * own;
    loss = replica.loss_and_gradients(a_case.windows().data() + first * (a_case.seqlen + 1));
    length = replica.gradient_length();
  }
  TensorPlace place() const { return {tensor.rank(), tensor.world_size()}; }

  RankGroups groups;
  GroupCommunicator tensor, context, gradients;
  WireCounter ring;
  ModelWeights weights;
  Replica replica;
  double loss = 0, length = 0;
};

// By rank of the world.
inline std::vector<std::unique_ptr<Part>> run_parts(const ModelCase& a_case, const Layout& layout,
                                                    PartitionKind partition) {
  return run_rank_threads(
      layout.ranks(),
      [&](Communicator& comm) { return std::make_unique<Part>(a_case, layout, partition, comm); },
      [&](Part& part) { part.run(a_case); });
}

}  // namespace ringscope
