// A partition found by search, for masks that none of the four fixed ones was made for: windows,
// prefixes, documents, and their combinations. The sequence is cut into chunks of whole tiles
// (ring_deal.h). They are dealt so that the slowest rank's computed pairs, summed over the steps of a
// ring, are as few as the search can find; the result need not be optimal.
//
// A fixed partition that scatters single positions (striped, fold) is even, but its tiles span many
// positions and most lie on the mask's edge. One that keeps positions together (contiguous, zigzag)
// wastes no tiles, but is uneven under any mask but its own. Dealing tiles can be both.
//
//   start    the best of the four fixed partitions, applied to chunks, and of a greedy deal, which
//            gives the chunk with most work first, to the rank where it makes the work of
//            (rank, step) most even
//   search   two ranks exchange chunks. One of them is the slowest rank of some step, or the owner
//            whose keys it then has. The exchange is kept unless it makes things worse. "Worse"
//            also counts the sum of squares, because most exchanges leave the slowest ranks as
//            slow as they were
//
// Every rank gets the same number of chunks, or one less. Ranks of unequal speed get any number, and
// the search also moves single chunks, so that they end together; pairs on a rank of speed s then
// count 1/s.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/cost/balance.h"
#include "core/problem/mask.h"
#include "core/ring/problem.h"
#include "core/sim/work.h"

namespace ringscope {

inline constexpr int kMostSearchedRanks = 256;

struct SearchRequest {
  Problem job;  // its partition is ignored, its speeds count
  Granularity granularity = {128, 128};
  // Least positions per chunk (fewer when ranks would get less than two chunks, but at least a
  // tile). Chunks are longer when there would otherwise be more than most_chunks.
  Index least_chunk_rows = 128;
  Index most_chunks = 2048;
  // Number of exchanges to try; 0: as many as take about a second. The result depends on the
  // request alone.
  int exchanges = 0;
  std::uint64_t seed = 0;
};

struct SearchedPartition {
  Index seqlen = 0;
  Index chunk_rows = 1;
  std::vector<int> rank_of_chunk;
  Work work;               // of every rank with every owner
  std::string_view start;  // the search's start: a partition's name, or "greedy"
  // Computed pairs of the slowest rank, summed over steps: at the start, at the end, and a lower
  // bound for every deal of these chunks: all pairs / all speeds, or more.
  double start_slowest = 0, slowest = 0, least_slowest = 0;
  int exchanges = 0;

  // Return the positions that `rank` holds, ascending, with neighbouring chunks joined.
  std::vector<Interval> positions_of(int rank) const;
  SearchBound bound() const { return {slowest, least_slowest}; }
  // Return the same for all `world_size` ranks, as runs take it.
  std::shared_ptr<const Assignment> assignment(int world_size) const;
};

// Search a partition. Throw InputError for a mask that does not fit, more than kMostSearchedRanks
// ranks, sizes below 1, and speeds that are not one number above 0 a rank.
SearchedPartition search_partition(const SearchRequest& request);

// Return whether ranks of these speeds are equally fast, or none are given. Only ratios matter, so
// such speeds are as good as none.
bool are_equal(const std::vector<double>& speeds);

// Return how evenly a ring's computed pairs are spread over ranks and steps. Those of a rank of
// speed s count 1/s.
Balance balance_of(const Work& work, const std::vector<double>& speeds = {});

}  // namespace ringscope
