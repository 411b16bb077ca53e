#include "core/tools/cost/choices.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "core/base/text.h"

namespace ringscope {

namespace {

// Return `job` with a partition that any seqlen and world_size have. An assignment is only for its
// own, and is taken to be as even as the fixed partitions.
Problem for_any_size(Problem job) {
  if (job.partition == PartitionKind::dealt) job.partition = PartitionKind::contiguous;
  return job;
}

// Return the largest x in [low, high] for which holds(x). It must hold for `low`, and for nothing
// above an x for which it does not hold.
template <class Holds>
Index last_that(Index low, Index high, Holds&& holds) {
  while (low < high) {
    const Index middle = low + (high - low + 1) / 2;
    if (holds(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

std::optional<std::string> obstacle(const Problem& job, double memory_bytes,
                                    const MemoryOf& memory_of) {
  if (auto why = why_refused(job)) return why;
  const double needed = memory_of(job);
  if (needed <= memory_bytes) return std::nullopt;
  return fmt::format("memory: {} needed a rank, {} there", gib_text(needed),
                     gib_text(memory_bytes));
}

Index largest_seqlen(const Problem& job, double memory_bytes, const MemoryOf& memory_of) {
  Problem tried = for_any_size(job);
  // Documents and slices are for one length only. Where all pairs are allowed, all of a block is sent.
  if (job.mask.has_documents() || job.mask.has_ranges()) tried.mask = {};
  return last_that(0, kMaxSeqlen, [&](Index seqlen) {
    tried.shape.seqlen = seqlen;
    return memory_of(tried) <= memory_bytes;
  });
}

std::optional<int> smallest_world_size(const Problem& job, double memory_bytes,
                                       const MemoryOf& memory_of) {
  const bool by_heads = job.scheme->course == Course::heads;
  const Index heads = std::gcd(job.shape.num_heads, job.shape.num_heads_kv);
  // Nodes, groups and rows of the grid have equally many ranks. With seqlen or more ranks, a rank holds
  // one row.
  const Index multiple = by_heads || !job.scheme->multiple ? 1 : job.scheme->multiple(job);
  const Index most =
      min_of(by_heads ? heads : round_up(job.shape.seqlen, multiple), kMostSimulatedRanks);
  Problem tried = for_any_size(job);
  for (Index n = multiple; n <= most; n += multiple) {
    tried.world_size = static_cast<int>(n);
    if (!(by_heads && heads % n != 0) && memory_of(tried) <= memory_bytes) return tried.world_size;
  }
  return std::nullopt;
}

namespace {

constexpr double kAsGood = 1.01;

// Ordered from long runs of positions, whose tiles are mostly full or empty, to short ones.
constexpr PartitionKind kByContiguity[] = {PartitionKind::contiguous, PartitionKind::zigzag,
                                           PartitionKind::fold, PartitionKind::striped};

}  // namespace

std::vector<Problem> all_ways(const Problem& job) {
  std::vector<Problem> ways;
  const auto add = [&](Course course, const PartitionSpec& partition) {
    for (const Scheme* const scheme : all_schemes()) {
      if (scheme->course != course) continue;
      ways.push_back(job);
      ways.back().scheme = scheme;
      ways.back().partition = partition;
    }
  };
  for (const Course course : {Course::steps, Course::gathers})
    for (const PartitionKind partition : kByContiguity) add(course, partition);
  add(Course::heads, PartitionKind::contiguous);
  if (job.partition == PartitionKind::dealt || job.partition.is_searched())
    for (const Course course : {Course::steps, Course::gathers}) add(course, job.partition);
  return ways;
}

Choice judge(const Problem& job, const Balance& balance, const Rates& rates, double memory_bytes,
             const MemoryOf& memory_of) {
  return {job, balance, layer_time(job, balance, rates), memory_of(job),
          obstacle(job, memory_bytes, memory_of)};
}

std::optional<std::size_t> best_choice(const std::vector<Choice>& choices) {
  double fastest = 0;
  bool found = false;
  for (const Choice& choice : choices) {
    if (choice.obstacle || (found && choice.time.total() >= fastest)) continue;
    fastest = choice.time.total();
    found = true;
  }
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (!choices[i].obstacle && choices[i].time.total() <= fastest * kAsGood) return i;
  return std::nullopt;
}

}  // namespace ringscope
