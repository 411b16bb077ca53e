// Which global positions a rank holds. Every partition gives a rank one or two arithmetic runs
// (first, first + stride, …) in ascending order. Both directions of the mapping "local row <->
// global position" are therefore a few integer operations, with no table and nothing to send.
//
//   contiguous   rank r holds chunk r of N                        one run, stride 1
//   striped      position p lies on rank p mod N                  one run, stride N
//   zigzag       of 2N chunks, rank r holds r and 2N-1-r          two runs, stride 1
//   fold         in fold f = p div N, position p lies on rank     two runs, stride 2N,
//                p mod N when f is even, N-1 - p mod N when odd   alternating
//                (what S1 calls zig-zag)
//
// If the chunks don't divide the sequence, the first (seqlen mod chunks) of them are longer by one
// row. Any seqlen >= 0 and world_size >= 1 works, and a rank may hold nothing.
#pragma once

#include <string_view>

#include "core/base/math.h"

namespace ringscope {

// An arithmetic run of `count` positions: first, first + stride, ….
struct Run {
  Index first = 0;
  Index stride = 1;
  Index count = 0;

  constexpr Index position(Index i) const { return first + stride * i; }
  // Return how many of the run's positions are < position.
  constexpr Index rows_below(Index position) const {
    return clamp(ceil_div(position - first, stride), 0, count);
  }
  constexpr Run slice(Index begin, Index end) const {
    return {position(begin), stride, max_of(end - begin, 0)};
  }
};

// The global positions of one rank's local rows 0, 1, …, ascending. The two runs have one stride
// and either follow each other or alternate (runs[0]: even local rows, runs[1]: odd).
struct LocalRows {
  Run runs[2];
  bool alternating = false;

  constexpr Index size() const { return runs[0].count + runs[1].count; }

  // Return the global position of local_row, which is in [0, size()).
  constexpr Index global_position(Index local_row) const {
    if (alternating) return runs[local_row & 1].position(local_row >> 1);
    return local_row < runs[0].count ? runs[0].position(local_row)
                                     : runs[1].position(local_row - runs[0].count);
  }

  // Return how many local rows lie at global positions < global_position. This is also the first
  // local row at or after it.
  constexpr Index rows_below(Index global_position) const {
    return runs[0].rows_below(global_position) + runs[1].rows_below(global_position);
  }

  // Return the part of run k whose local rows lie in [begin, end).
  constexpr Run run_within(int k, Index begin, Index end) const {
    const Run& run = runs[k];
    if (alternating)
      return run.slice(clamp((begin + 1 - k) / 2, 0, run.count),
                       clamp((end + 1 - k) / 2, 0, run.count));
    const Index offset = k == 0 ? 0 : runs[0].count;
    return run.slice(clamp(begin - offset, 0, run.count), clamp(end - offset, 0, run.count));
  }
};

// ---
// The four partitions. The head of this file says which positions each gives to a rank.

enum class PartitionKind { contiguous, striped, zigzag, fold };

inline constexpr PartitionKind kAllPartitions[] = {
    PartitionKind::contiguous, PartitionKind::striped, PartitionKind::zigzag, PartitionKind::fold};

constexpr std::string_view name_of(PartitionKind kind) {
  constexpr std::string_view names[] = {"contiguous", "striped", "zigzag", "fold"};
  return names[static_cast<int>(kind)];
}

// Return the kind that `text` names. Throw an InputError that lists the accepted names.
PartitionKind parse_partition(std::string_view text);

// Return chunk k of `chunks` balanced chunks, as a run of positions.
constexpr Run balanced_chunk(Index seqlen, Index chunks, Index k) {
  const Index length = seqlen / chunks, longer = seqlen % chunks;
  return {k * length + min_of(k, longer), 1, length + (k < longer ? 1 : 0)};
}

struct Partition {
  PartitionKind kind = PartitionKind::contiguous;
  Index seqlen = 0;
  int world_size = 1;

  // Return the rows that `rank` in [0, world_size) holds.
  constexpr LocalRows rows_of(int rank) const {
    if (seqlen == 0) return {};
    const Index n = world_size;
    switch (kind) {
      case PartitionKind::striped:
        return {{strided(rank, n), {seqlen, n, 0}}, false};
      case PartitionKind::zigzag:
        return {
            {balanced_chunk(seqlen, 2 * n, rank), balanced_chunk(seqlen, 2 * n, 2 * n - 1 - rank)},
            false};
      case PartitionKind::fold:
        return {{strided(rank, 2 * n), strided(2 * n - 1 - rank, 2 * n)}, true};
      default:
        return {{balanced_chunk(seqlen, n, rank), {seqlen, 1, 0}}, false};
    }
  }

  // Return the most rows that any rank holds, which is ceil(seqlen / world_size) for every kind.
  constexpr Index max_rows() const { return ceil_div(seqlen, world_size); }

 private:
  constexpr Run strided(Index first, Index stride) const {
    return {first, stride, Run{first, stride, seqlen}.rows_below(seqlen)};
  }
};

}  // namespace ringscope
