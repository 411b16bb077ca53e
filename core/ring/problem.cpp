#include "core/ring/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/base/cores.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/trace/event.h"

namespace ringscope {

int stride_of_ring(int n, int ring) {
  int stride = 1;
  for (int pair = 0; pair < ring / 2; ++stride)
    if (std::gcd(stride + 1, n) == 1) ++pair;
  return ring % 2 == 0 ? stride : n - stride;
}

// Euler's totient: of the numbers below n, each prime divisor p of n leaves a share of (p - 1) / p.
int most_rings(int n) {
  int count = n, rest = n;
  for (int p = 2; rest > 1; ++p) {
    if (p > rest / p) p = rest;  // what is left is prime
    if (rest % p != 0) continue;
    count -= count / p;
    while (rest % p == 0) rest /= p;
  }
  return count;
}

HeadShare share_of_heads(const AttentionShape& shape, Index shares, Index share) {
  const Index kv_heads = shape.num_heads_kv, per_kv_head = shape.group_size();
  if (shares <= kv_heads) {
    const Run kv = balanced_chunk(kv_heads, shares, share);
    return {kv.first * per_kv_head, kv.count * per_kv_head, kv.first, kv.count};
  }
  Index kv_head = 0;
  while (balanced_chunk(shares, kv_heads, kv_head + 1).first <= share && kv_head + 1 < kv_heads)
    ++kv_head;
  const Run sharers = balanced_chunk(shares, kv_heads, kv_head);
  const Run heads = balanced_chunk(per_kv_head, sharers.count, share - sharers.first);
  return {kv_head * per_kv_head + heads.first, heads.count, kv_head, 1};
}

Index pairs_of_share(const AttentionShape& shape, Index pairs, const HeadShare& share) {
  const Index heads = shape.num_heads;
  return pairs * (share.first + share.num_heads) / heads - pairs * share.first / heads;
}

PartedBlocks::PartedBlocks(const Mask& mask, const Partitions& deal, PartOrder order) {
  for (int owner = 0; owner < deal.world_size; ++owner) {
    of_owner.push_back(parts_of_block(mask, deal, owner, order));
    most_parts = std::max(most_parts, of_owner.back().size());
    std::vector<int> stretches(static_cast<std::size_t>(deal.world_size), 0);
    std::vector<bool> before(stretches.size(), false);
    for (const BlockPart& part : of_owner.back()) {
      hops = std::max(hops, part.last);
      for (std::size_t distance = 0; distance < stretches.size(); ++distance)
        stretches[distance] += part.needed_by[distance] && !before[distance];
      before = part.needed_by;
    }
    messages.resize(stretches.size());
    for (std::size_t distance = 0; distance < stretches.size(); ++distance)
      messages[distance] = std::max(messages[distance], stretches[distance]);
  }
}

Index PartedBlocks::rows(int owner, int hop) const {
  Index rows = 0;
  for (const BlockPart& part : of_owner[owner])
    if (hop == 0 || part.last >= hop) rows += part.size();
  return rows;
}

bool Problem::parts_blocks() const {
  if (scheme->parting == Parting::always) return world_size > 1;
  return scheme->parting == Parting::where_asked && hops == Hops::needed &&
         saves_hops(mask.for_seqlen(shape.seqlen), partitions());
}

int Problem::used_kv_buffers() const {
  return scheme->course == Course::steps ? std::min(kv_buffers, world_size) : 0;
}

Partitions Problem::partitions() const {
  if (!deals_queries_apart()) return partition_of_sequence();
  return {partition_of_sequence(), partition_q.value_or(partition).of(shape.queries(), world_size),
          shape.first_query()};
}

Region Problem::whole_region() const {
  const auto all = [](Index rows) {
    return Partition{PartitionKind::contiguous, rows, 1}.rows_of(0);
  };
  return {mask.for_seqlen(shape.seqlen), all(shape.queries()).moved(shape.first_query()),
          all(shape.seqlen)};
}

void Problem::deal_out() {
  const Mask whole = mask.for_seqlen(shape.seqlen);
  partition.deal_out(whole, world_size);
  if (is_q_by_partition) partition_q.reset();
  is_q_by_partition = false;
  if (!deals_queries_apart()) return;
  if (partition_q && partition_q->is_searched())
    throw InputError("'searched' given for the queries; accepted: the name of a partition");
  // A table of the keys is none of fewer queries.
  is_q_by_partition = !partition_q && partition == PartitionKind::dealt;
  if (is_q_by_partition) partition_q = partition;
  if (!partition_q) return;
  try {
    partition_q->deal_out(whole, world_size,
                          {shape.first_query(), shape.first_query() + shape.queries()});
  } catch (const InputError& error) {
    throw InputError("queries, by '" + partition_q->name() + "': " + error.what());
  }
}

double Problem::scale() const {
  return softmax_scale.value_or(default_softmax_scale(shape.head_dim));
}

namespace {

// Work out the parts of a job's blocks, or return those that were worked out last: all ranks of a run,
// and all that is predicted of it, ask for the same.
std::shared_ptr<const PartedBlocks> parted_blocks(const Problem& job, const RingProblem& problem) {
  using Key = std::tuple<std::string, PartitionKind, const Assignment*, Index, int, PartOrder,
                         PartitionKind, const Assignment*, Index, Index>;
  struct Kept {
    PartitionSpec deal;                       // whose positions the parts point to
    std::optional<PartitionSpec> of_queries;  // whose address the key knows
    PartedBlocks blocks;
  };
  static std::mutex mutex;
  static Key last_key;
  static std::shared_ptr<const PartedBlocks> last;
  Key key{job.mask.identity(),
          job.partition,
          job.partition.assignment(),
          job.shape.seqlen,
          job.world_size,
          job.scheme->part_order,
          problem.partition.queries.kind,
          problem.partition.queries.assignment,
          job.shape.queries(),
          job.shape.first_query()};
  const std::lock_guard lock(mutex);
  if (last != nullptr && key == last_key) return last;
  const auto kept = std::make_shared<const Kept>(Kept{
      job.partition, job.partition_q, {problem.mask, problem.partition, job.scheme->part_order}});
  last = std::shared_ptr<const PartedBlocks>(kept, &kept->blocks);
  last_key = std::move(key);
  return last;
}

}  // namespace

RingProblem Problem::ring_problem() const {
  RingProblem problem{{shape, dtype, scale(), has_sinks() ? sink_logits.data() : nullptr},
                      mask.for_seqlen(shape.seqlen),
                      partitions(),
                      scheme,
                      numbers,
                      nodes};
  problem.params.softcap = softcap;
  if (parts_blocks()) problem.parted = parted_blocks(*this, problem);
  return problem;
}

int Problem::ranks_a_node() const {
  if (nodes >= 1 && world_size % nodes == 0) return world_size / nodes;
  throw InputError("nodes: " + std::to_string(nodes) + " given for " + std::to_string(world_size) +
                   " ranks; accepted: a number that divides them");
}

Recording empty_recording(const Problem& config, std::string_view backend) {
  Recording recording;
  RunInfo& info = recording.info;
  info.backend = backend;
  info.partition = config.partition.recorded_name();
  info.mask = config.mask.name();
  info.scheme = config.scheme_name();
  if (config.parts_blocks()) info.hops = name_of(Hops::needed);
  info.mask_slices = config.mask.slice_numbers();
  info.partition_runs = config.partition.numbers();
  if (config.partition_q) {
    info.partition_q = config.partition_q->recorded_name();
    info.partition_q_runs = config.partition_q->numbers();
  }
  info.dtype = name_of(config.dtype);
  info.shape = config.shape;
  info.sink_logits = config.has_sinks();
  if (config.softcap > 0) info.softcap = static_cast<float>(config.softcap);
  info.kv_buffers = config.used_kv_buffers();
  info.world_size = config.world_size;
  info.travel = travel_of(info);
  if (backend == "cpu") {
    RunMachine& machine = info.machine.emplace();
    machine.device = "CPU";
    machine.cores = cores();
  }
  info.clock_offset_ns.assign(config.world_size, 0);
  info.clock_error_ns.assign(config.world_size, 0);
  info.base_time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  recording.events.resize(config.world_size);
  recording.dropped.resize(config.world_size);
  return recording;
}

}  // namespace ringscope
