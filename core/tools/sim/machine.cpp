#include "core/tools/sim/machine.h"

#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"

namespace ringscope {

namespace {

class Durations {
 public:
  Durations(const TaskGraph& graph, const Problem& job, const Machine& machine)
      : job_(job), machine_(machine), sends_to_all_(graph.hops_end_together) {
    for (const Pass pass : kAllPasses)
      flops_a_pair_[static_cast<int>(pass)] = flops_of_pairs(job.shape, 1, pass);
  }

  // Return seconds, rounded as compute_seconds() in core/tools/cost/time.h rounds them.
  double of_attention(const Task& task) const {
    const auto pass = static_cast<int>(task.pass);
    double effective = task.work.computed;
    if (!machine_.speed.empty()) effective /= machine_.speed[task.rank];
    if (machine_.jitter > 0)
      effective *= 1 + machine_.jitter * jitter_draw(machine_.seed, JitterOf::compute, task.pass,
                                                     task.rank, task.step);
    return flops_a_pair_[pass] * effective / machine_.rates.flops(task.pass) +
           (task.work.pairs > 0 ? machine_.step_seconds(task.pass) : 0);
  }

  double of_hop(const Task& task) const {
    const Path path = path_of(task);
    const double seconds = sends_to_all_ ? all_to_all_seconds(task.bytes, job_.world_size,
                                                              path.bytes_per_s, path.latency_s)
                                         : path.seconds(task.bytes);
    if (!(machine_.hop_jitter > 0)) return seconds;
    const JitterOf what =
        task.payload == Payload::kv || sends_to_all_ ? JitterOf::kv_hop : JitterOf::gradient_hop;
    // A rank's two hops of one step draw different random numbers.
    const int step = task.step + (task.way == Way::between_nodes ? job_.world_size : 0);
    return seconds *
           (1 + machine_.hop_jitter * jitter_draw(machine_.seed, what, task.pass, task.rank, step));
  }

 private:
  // A rank's rings share its port inside the node; between nodes cluster.h has divided the links.
  Path path_of_ring(const Task& hop) const {
    const int per_node = job_.world_size / job_.nodes;
    if (hop.rank / per_node != hop.to / per_node) return machine_.path_to_next_node(hop.rank);
    Path path =
        job_.nodes > 1 ? machine_.path_to_next_here(hop.rank) : machine_.path_to_next(hop.rank);
    path.bytes_per_s /= job_.rings();
    return path;
  }
  Path path_of(const Task& hop) const {
    const Scheme& scheme = *job_.scheme;
    if (scheme.links == Links::to_all) return machine_.path_to_all(hop.rank);
    if (scheme.rings != nullptr) return path_of_ring(hop);
    const bool goes_straight_home =
        job_.nodes > 1 && scheme.course == Course::steps && hop.way == Way::backwards;
    if (!scheme.counts_nodes && !goes_straight_home &&
        (scheme.links == Links::to_next || job_.nodes == 1))
      return machine_.path_to_next(hop.rank);
    const int per_node = job_.world_size / job_.nodes;
    return hop.rank / per_node == hop.to / per_node ? machine_.path_to_next_here(hop.rank)
                                                    : machine_.path_to_next_node(hop.rank);
  }

  const Problem& job_;
  const Machine& machine_;
  bool sends_to_all_;
  double flops_a_pair_[2];
};

std::vector<double> cpu_seconds(const TaskGraph& graph, const Problem& job,
                                const CpuFigures& figures) {
  const AttentionShape& shape = job.shape;
  const double query_heads = row_values(shape, 1);
  const double kv_heads = query_heads / static_cast<double>(shape.group_size());
  const Mask mask = job.mask.for_seqlen(shape.seqlen);
  const Partitions deal = job.partitions();
  const auto n = static_cast<std::size_t>(job.world_size);

  std::vector<TileAmounts> amounts;  // [rank][owner]
  amounts.reserve(n * n);
  for (int rank = 0; rank < job.world_size; ++rank)
    for (int owner = 0; owner < job.world_size; ++owner)
      amounts.push_back(tile_amounts({mask, deal.queries_of(rank), deal.rows_of(owner)}));

  const auto seconds_of = [&](const Task& task) -> double {
    const KernelFigures& kernel = figures.kernel(task.pass);
    switch (task.kind) {
      case Task::Kind::begin:
        return task.pass == Pass::forward ? figures.start_s : 0;
      case Task::Kind::attend:
        return kernel.seconds(amounts[static_cast<std::size_t>(task.rank) * n + task.owner],
                              query_heads, kv_heads);
      case Task::Kind::add:
        return figures.add_s *
               block_values(shape, static_cast<double>(deal.rows_of(task.owner).size()));
      case Task::Kind::finish:
        return kernel.value_s *
               out_values(shape, static_cast<double>(deal.queries_of(task.rank).size())) /
               job.layout().head_shares();
      case Task::Kind::hop:
        if (!task.is_message()) return 0;
        return figures.hops.hop_s + figures.hops.byte_s * task.bytes;
      default:
        return 0;
    }
  };
  std::vector<double> seconds;
  seconds.reserve(graph.tasks.size());
  for (const Task& task : graph.tasks) seconds.push_back(seconds_of(task));
  return seconds;
}

}  // namespace

std::vector<double> durations_on(const TaskGraph& graph, const Problem& job,
                                 const Machine& machine) {
  if (machine.cpu != nullptr) return cpu_seconds(graph, job, *machine.cpu);
  const Durations durations(graph, job, machine);
  std::vector<double> seconds(graph.tasks.size(), 0);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Task& task = graph.tasks[i];
    if (task.kind == Task::Kind::attend) seconds[i] = durations.of_attention(task);
    if (task.is_message()) seconds[i] = durations.of_hop(task);
  }
  return seconds;
}

}  // namespace ringscope
