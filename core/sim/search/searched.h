// A partition found by search, for masks that none of the four fixed ones was made for: windows,
// prefixes, documents, and what they combine to. The sequence is cut into chunks of whole tiles
// (chunks.h), and these are dealt out so that the slowest rank's computed pairs, summed over the
// steps of a ring, become as few as can be found.
//
// A fixed partition that scatters single positions (striped, fold) is even, but its tiles span many
// positions of the sequence and most of them lie on the mask's edge; one that keeps positions
// together (contiguous, zigzag) wastes no tiles, but is uneven under any mask but its own. Dealing
// out tiles can be both.
//
//   start    the better of the four fixed partitions, of chunks in place of positions, and of a
//            greedy deal: the chunk with most work first, to the rank where it makes the work of
//            (rank, step) most even
//   search   two chunks of two ranks are exchanged, one of them of a rank that is the slowest of
//            some step or of the owner whose keys it then has; kept unless it makes things worse.
//            "Worse" also looks at the sum of squares, because most exchanges leave the slowest
//            ranks as slow as they were
//
// Every rank gets as many chunks, or one less.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/cost/balance.h"
#include "core/cost/job.h"
#include "core/problem/mask.h"
#include "core/sim/work.h"

namespace ringscope {

inline constexpr int kMostSearchedRanks = 256;

struct SearchRequest {
  Job job;  // its partition is not looked at
  Granularity granularity = {128, 128};
  // A chunk has so many positions at least (fewer where ranks would get less than two chunks, but no
  // less than a tile), and more where there would otherwise be more chunks than most_chunks.
  Index least_chunk_rows = 128;
  Index most_chunks = 2048;
  // Exchanges that are tried; 0: as many as take about a second. The result depends on nothing but
  // the request.
  int exchanges = 0;
  std::uint64_t seed = 0;
};

struct SearchedPartition {
  Index seqlen = 0;
  Index chunk_rows = 1;
  std::vector<int> rank_of_chunk;
  Work work;               // of every rank with every owner
  std::string_view start;  // what the search began with: a partition's name, or "greedy"
  // Computed pairs of a step's slowest rank, summed over steps: at first, in the end, and a bound that
  // no dealing of these chunks can be below.
  double start_slowest = 0, slowest = 0, least_slowest = 0;
  int exchanges = 0;

  // The positions that `rank` holds, ascending, neighbouring chunks joined.
  std::vector<Interval> positions_of(int rank) const;
};

// Throws InputError for a mask that does not fit seqlen, more than kMostSearchedRanks ranks, and sizes
// below 1.
SearchedPartition search_partition(const SearchRequest& request);

// The same, for who needs no more than what each rank then has to do.
Work searched_work(const Job& job, Granularity granularity, std::uint64_t seed);

// How evenly a ring's computed pairs lie on ranks and steps.
Balance balance_of(const Work& work);

}  // namespace ringscope
