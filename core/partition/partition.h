// The four ways to deal a sequence out to ranks: see local_rows.h for what each gives to whom.
#pragma once

#include <string_view>

#include "core/partition/local_rows.h"

namespace ringscope {

enum class PartitionKind { contiguous, striped, zigzag, fold };

inline constexpr PartitionKind kAllPartitions[] = {
    PartitionKind::contiguous, PartitionKind::striped, PartitionKind::zigzag, PartitionKind::fold};

constexpr std::string_view name_of(PartitionKind kind) {
  switch (kind) {
    case PartitionKind::contiguous:
      return "contiguous";
    case PartitionKind::striped:
      return "striped";
    case PartitionKind::zigzag:
      return "zigzag";
    case PartitionKind::fold:
      return "fold";
  }
  return "?";
}

// Throws InputError that lists the accepted names.
PartitionKind parse_partition(std::string_view text);

// Chunk k of `chunks` balanced ones, as a run of positions.
constexpr Run balanced_chunk(Index seqlen, Index chunks, Index k) {
  const Index length = seqlen / chunks, longer = seqlen % chunks;
  return {k * length + min_of(k, longer), 1, length + (k < longer ? 1 : 0)};
}

struct Partition {
  PartitionKind kind = PartitionKind::contiguous;
  Index seqlen = 0;
  int world_size = 1;

  // What `rank` holds, rank in [0, world_size).
  constexpr LocalRows rows_of(int rank) const {
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

  // The largest number of rows that any rank holds: ceil(seqlen / world_size), for every kind.
  constexpr Index max_rows() const { return ceil_div(seqlen, world_size); }

 private:
  constexpr Run strided(Index first, Index stride) const {
    return {first, stride, Run{first, stride, seqlen}.rows_below(seqlen)};
  }
};

}  // namespace ringscope
