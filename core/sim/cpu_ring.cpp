#include "core/sim/cpu_ring.h"

#include <algorithm>
#include <vector>

#include "core/cost/work.h"

namespace ringscope {
namespace {

using Kind = LoopTask::Kind;

}  // namespace

TaskCosts cpu_costs(const LoopGraph& graph, const Problem& job, const CpuFigures& figures) {
  const AttentionShape& shape = job.shape;
  const double query_heads = row_values(shape, 1);
  const double kv_heads = query_heads / static_cast<double>(shape.group_size());
  const Mask mask = job.mask.for_seqlen(shape.seqlen);
  const Partition partition = job.partition_of_sequence();
  const auto n = static_cast<std::size_t>(job.world_size);

  std::vector<TileAmounts> amounts;  // [rank][owner]
  amounts.reserve(n * n);
  for (int rank = 0; rank < job.world_size; ++rank)
    for (int owner = 0; owner < job.world_size; ++owner)
      amounts.push_back(tile_amounts({mask, partition.rows_of(rank), partition.rows_of(owner)}));

  const auto attend = [&](const LoopTask& task) {
    const KernelFigures& kernel = figures.kernel(task.pass);
    const TileAmounts& block =
        amounts[static_cast<std::size_t>(task.rank) * n + static_cast<std::size_t>(task.owner)];
    return kernel.seconds(block, query_heads, kv_heads);
  };
  const auto rows_of = [&](int rank) {
    return static_cast<double>(partition.rows_of(rank).size());
  };
  TaskCosts costs{std::vector<double>(graph.tasks.size(), 0), true};
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const LoopTask& task = graph.tasks[i];
    double& seconds = costs.seconds[i];
    switch (task.kind) {
      case Kind::begin:
        seconds = task.pass == Pass::forward ? figures.start_s : 0;
        break;
      case Kind::attend:
        seconds = attend(task);
        break;
      case Kind::add:
        seconds = figures.add_s * 2 * kv_values(shape, rows_of(task.owner));
        break;
      case Kind::finish:
        seconds = figures.kernel(task.pass).value_s * query_values(shape, rows_of(task.rank));
        break;
      case Kind::hop:
        seconds = figures.hops.hop_s + figures.hops.byte_s * task.bytes;
        break;
    }
  }
  return costs;
}

}  // namespace ringscope
