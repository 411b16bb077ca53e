#include "core/ring/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

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

int most_rings(int n) {
  int count = 0;
  for (int stride = 1; stride < n; ++stride) count += std::gcd(stride, n) == 1 ? 1 : 0;
  return std::max(count, 1);
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

void set_scheme(Problem& job, std::string_view text) {
  const auto refuse = [&] {
    throw InputError(
        fmt::format("'{}' given; accepted: {}, with numbers of at least 1", text, kSchemeNames));
  };
  const auto number = [&](std::string_view digits) {
    const auto value = parse_number<int>(digits);
    if (!value || *value < 1) refuse();
    return *value;
  };
  const auto colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const bool has_number = colon != text.npos;
  const std::string_view numbers = has_number ? text.substr(colon + 1) : "";
  job.slices = job.group = job.grid_rows = job.rings = 1;
  job.grid_columns = 0;
  const auto set = [&](Scheme scheme, bool takes_number, bool may_lack_it = false) {
    if (name != name_of(scheme)) return false;
    if (takes_number ? !has_number && !may_lack_it : has_number) refuse();
    job.scheme = scheme;
    return true;
  };
  if (set(Scheme::ring, false) || set(Scheme::bidirectional, false) || set(Scheme::pass_q, false) ||
      set(Scheme::groupcast, false))
    return;
  if (set(Scheme::allgather, true, true) || set(Scheme::ulysses, true, true)) {
    if (has_number) job.slices = number(numbers);
  } else if (set(Scheme::hybrid, true)) {
    job.group = number(numbers);
  } else if (set(Scheme::multi_ring, true)) {
    job.rings = number(numbers);
  } else if (set(Scheme::two_level, true)) {
    job.nodes = number(numbers);
  } else if (set(Scheme::mesh, true)) {
    const auto times = numbers.find('x');
    if (times == numbers.npos) refuse();
    job.grid_rows = number(numbers.substr(0, times));
    job.grid_columns = number(numbers.substr(times + 1));
  } else {
    refuse();
  }
}

namespace {

std::string divisors_text(int n) {
  std::string text;
  for (int k = 1; k <= n; ++k)
    if (n % k == 0) text += (text.empty() ? "" : ", ") + std::to_string(k);
  return text;
}

}  // namespace

void check_scheme(const Problem& job) {
  const AttentionShape& shape = job.shape;
  const int n = job.world_size;
  const auto refuse = [&](const std::string& accepted) {
    throw InputError(fmt::format(
        "scheme: '{}' given for {} rank{}, {} heads and {} kv heads; accepted: {}",
        job.scheme_name(), n, n == 1 ? "" : "s", shape.num_heads, shape.num_heads_kv, accepted));
  };
  switch (job.scheme) {
    case Scheme::ring:
    case Scheme::bidirectional:
    case Scheme::pass_q:
      return;
    case Scheme::groupcast:
      if (n > kMostPartedRanks) refuse(fmt::format("1 to {} ranks", kMostPartedRanks));
      return;
    case Scheme::multi_ring:
      if (job.rings > most_rings(n))
        refuse(
            fmt::format("multi-ring:R with R up to {}, as many as there are numbers below {} "
                        "without a divisor in common with it",
                        most_rings(n), n));
      return;
    case Scheme::allgather:
      if (job.slices > shape.num_heads_kv)
        refuse(fmt::format("allgather:1 to allgather:{}", shape.num_heads_kv));
      return;
    case Scheme::ulysses:
      if (n > shape.num_heads) refuse(fmt::format("1 to {} ranks", shape.num_heads));
      if (job.slices > shape.num_heads / n)
        refuse(fmt::format("ulysses:1 to ulysses:{}", shape.num_heads / n));
      return;
    case Scheme::hybrid:
      if (n % job.group != 0) refuse(fmt::format("hybrid:U with U one of {}", divisors_text(n)));
      if (job.group > shape.num_heads)
        refuse(fmt::format("hybrid:U with U up to {}", shape.num_heads));
      return;
    case Scheme::two_level:
      if (n % job.nodes != 0) refuse(fmt::format("two-level:M with M one of {}", divisors_text(n)));
      return;
    case Scheme::mesh:
      if (n % job.grid_rows != 0 ||
          (job.grid_columns != 0 && n / job.grid_rows != job.grid_columns))
        refuse(fmt::format("mesh:RxC with R one of {} and R x C = {}", divisors_text(n), n));
  }
}

std::string Problem::scheme_name() const {
  const std::string name(name_of(scheme));
  switch (scheme) {
    case Scheme::allgather:
    case Scheme::ulysses:
      return slices == 1 ? name : fmt::format("{}:{}", name, slices);
    case Scheme::hybrid:
      return fmt::format("{}:{}", name, group);
    case Scheme::multi_ring:
      return fmt::format("{}:{}", name, rings);
    case Scheme::two_level:
      return fmt::format("{}:{}", name, nodes);
    case Scheme::mesh:
      return fmt::format("{}:{}x{}", name, grid_rows,
                         grid_columns != 0 ? grid_columns : world_size / grid_rows);
    default:
      return name;
  }
}

int RingProblem::head_shares() const {
  if (partition.world_size == 1) return 1;
  const bool in_slices = scheme == Scheme::allgather || scheme == Scheme::ulysses;
  return heads_group() * (in_slices ? slices : 1);
}

PartedBlocks::PartedBlocks(const Mask& mask, const Partition& partition, PartOrder order) {
  for (int owner = 0; owner < partition.world_size; ++owner) {
    of_owner.push_back(parts_of_block(mask, partition, owner, order));
    most_parts = std::max(most_parts, of_owner.back().size());
    std::vector<int> stretches(static_cast<std::size_t>(partition.world_size), 0);
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
  if (scheme == Scheme::groupcast) return world_size > 1;
  return scheme == Scheme::ring && hops == Hops::needed &&
         saves_hops(mask.for_seqlen(shape.seqlen), partition_of_sequence());
}

int Problem::used_kv_buffers() const {
  return scheme == Scheme::ring ? std::min(kv_buffers, world_size) : 0;
}

double Problem::scale() const {
  return softmax_scale.value_or(default_softmax_scale(shape.head_dim));
}

namespace {

// Work out the parts of a job's blocks, or return those that were worked out last: all ranks of a run,
// and all that is predicted of it, ask for the same.
std::shared_ptr<const PartedBlocks> parted_blocks(const Problem& job, const RingProblem& problem) {
  using Key = std::tuple<std::string, PartitionKind, const Assignment*, Index, int, Scheme>;
  struct Kept {
    PartitionSpec deal;  // whose positions the parts point to
    PartedBlocks blocks;
  };
  static std::mutex mutex;
  static Key last_key;
  static std::shared_ptr<const PartedBlocks> last;
  Key key{job.mask.identity(), job.partition,  job.partition.assignment(),
          job.shape.seqlen,    job.world_size, job.scheme};
  const std::lock_guard lock(mutex);
  if (last != nullptr && key == last_key) return last;
  const auto kept = std::make_shared<const Kept>(
      Kept{job.partition,
           {problem.mask, problem.partition,
            job.scheme == Scheme::ring ? PartOrder::farthest_first : PartOrder::by_position}});
  last = std::shared_ptr<const PartedBlocks>(kept, &kept->blocks);
  last_key = std::move(key);
  return last;
}

}  // namespace

RingProblem Problem::ring_problem() const {
  RingProblem problem{{shape, dtype, scale()},
                      mask.for_seqlen(shape.seqlen),
                      partition_of_sequence(),
                      scheme,
                      nodes,
                      slices,
                      group,
                      grid_rows,
                      rings};
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
  info.dtype = name_of(config.dtype);
  info.shape = config.shape;
  info.kv_buffers = config.used_kv_buffers();
  info.world_size = config.world_size;
  if (backend == "cpu") {
    RunMachine& machine = info.machine.emplace();
    machine.device = "CPU";
    machine.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
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
