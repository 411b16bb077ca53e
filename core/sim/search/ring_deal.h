// A sequence cut into chunks of whole tiles, and the work of each chunk with each other. Searched
// partitions (searched.h) consist of such chunks; which rank gets which is not decided here.
//
// A chunk's length is a multiple of a tile's rows and keys, so each tile lies in one chunk. A
// rank's work with an owner's block is therefore the sum over their chunks, whatever the others
// have. Another deal only moves work between ranks and steps.
#pragma once

#include <array>
#include <vector>

#include "core/base/math.h"
#include "core/problem/region.h"
#include "core/sim/work.h"

namespace ringscope {

class Chunks {
 public:
  // `rows` positions per chunk are a multiple of granularity.rows and granularity.keys. The last
  // chunk may be shorter. What `mask` points to must outlive this.
  Chunks(const Mask& mask, Index rows, Granularity granularity);

  int count() const { return count_; }
  Index rows() const { return rows_; }
  Interval positions(int chunk) const {
    return {chunk * rows_, min_of((chunk + 1) * rows_, mask_.seqlen)};
  }

  // Return the pairs of two chunks that the mask allows, and those that are computed.
  Index pairs(int queries, int keys) const;
  Index computed_pairs(int queries, int keys) const;

 private:
  enum class Allowed { none, some, all };
  Allowed allowed(int queries, int keys) const;
  Region region(int queries, int keys) const;
  // Return 0, the number of all pairs, or of_some(region).
  template <class Count>
  Index pairs_or(int queries, int keys, Count&& of_some) const;

  Mask mask_;
  Index rows_;
  Granularity granularity_;
  int count_;
  // Keys of a chunk's first row and of its last; empty under a mask in pieces.
  std::vector<Interval> first_, last_;
};

// ---
// A deal of chunks to the ranks of a ring and its cost: the slowest rank's work, summed over steps
// as in balance_of(), where a rank of speed s has 1/s of its work to do. An exchange of two chunks,
// and the move of one, is costed in O(world_size) and made in O(world_size
// + chunks), plus O(world_size) for each step whose busiest ranks may change.
//
// Work of rank r with owner o belongs to step (r - o) mod N. Exchanging chunks of two ranks changes
// their rows and columns in that table, so it changes at most four ranks' work at each step. The
// new maximum of a step follows because its five busiest ranks are known.

// [queries' chunk][keys' chunk], also transposed: the work of each of `chunks` chunks with each,
// and of one more, which stands for "no chunk" and has no work with any.
class ChunkWork {
 public:
  explicit ChunkWork(int chunks);
  int chunks() const { return chunks_; }
  int no_chunk() const { return chunks_; }

  void set(int queries, int keys, double work);
  double of(int queries, int keys) const { return row(queries)[keys]; }
  const double* row(int queries) const { return by_queries_.data() + at(queries, 0); }
  const double* column(int keys) const { return by_keys_.data() + at(keys, 0); }
  double total() const { return total_; }

 private:
  std::size_t at(int i, int j) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(chunks_ + 1) +
           static_cast<std::size_t>(j);
  }
  int chunks_;
  double total_ = 0;
  std::vector<double> by_queries_, by_keys_;
};

// The cost of a deal. Less `slowest` is better, and among equals less `squares`, which shows how
// unequal ranks are where the slowest one does not.
struct DealCost {
  double slowest = 0;  // sum over steps of the busiest rank's work
  double squares = 0;  // sum over (rank, step) of work squared / speed
};

class RingDeal {
 public:
  static constexpr int kNobody = -1;

  // `rank_of` is the rank of each chunk, or kNobody. `speeds` are the ranks', or empty: all are 1.
  // `work` must outlive this object.
  RingDeal(const ChunkWork& work, int world_size, const std::vector<int>& rank_of,
           const std::vector<double>& speeds = {});

  int world_size() const { return world_size_; }
  int rank_of(int chunk) const { return rank_of_[chunk]; }
  const std::vector<int>& rank_of() const { return rank_of_; }
  const DealCost& cost() const { return cost_; }

  // Return the cost after chunks a and b of two ranks are exchanged.
  DealCost cost_of_exchange(int a, int b) const;
  void exchange(int a, int b);
  // Return the cost after a rank gives a chunk to `rank`, another one.
  DealCost cost_of_move(int chunk, int rank) const;
  void move(int chunk, int rank);
  // Return the cost after `rank` gets a chunk that nobody has.
  DealCost cost_of_gift(int chunk, int rank) const;
  void give(int chunk, int rank);

  // Return the rank that takes longest at `step`.
  int slowest_rank(int step) const { return busiest_[step].ranks[0]; }
  // Return the work of `rank` at `step`.
  double work_at(int step, int rank) const {
    return work_at_[static_cast<std::size_t>(step) * world_size_ + rank];
  }

 private:
  // A rank gives one chunk away and takes another. With rank kNobody there is no trade.
  struct Trade {
    int rank, out, in;
  };
  struct Busiest {
    std::array<int, 5> ranks;
    int count = 0;
    double least = 0;  // time of the last of them; 0 when they are all ranks
  };
  struct NewWork {
    int rank;
    double work;
  };

  double time_at(int step, int rank) const { return work_at(step, rank) * slowness_[rank]; }
  int step_of(int rank, int owner) const {
    return rank >= owner ? rank - owner : rank - owner + world_size_;
  }
  double& work_at(int step, int rank) {
    return work_at_[static_cast<std::size_t>(step) * world_size_ + rank];
  }
  // Return, by rank: work of the chunk's rows with its keys, and of its rows with the chunk's keys.
  const double* with_keys_of(int chunk) const {
    return with_keys_of_.data() + static_cast<std::size_t>(chunk) * world_size_;
  }
  const double* with_rows_of(int chunk) const {
    return with_rows_of_.data() + static_cast<std::size_t>(chunk) * world_size_;
  }
  double after_trades(int rank, int owner, const Trade& a, const Trade& b) const;
  int changes_at(int step, const Trade& a, const Trade& b, std::array<NewWork, 4>& changes) const;
  DealCost cost_of(const Trade& a, const Trade& b) const;
  void carry_out(const Trade& a, const Trade& b);
  bool may_be_busiest(int step, double time) const;
  void rank_busiest(int step);

  const ChunkWork& work_;
  int world_size_;
  std::vector<int> rank_of_;
  std::vector<double> slowness_;                     // [rank]: 1 / speed
  std::vector<double> work_at_;                      // [step][rank]
  std::vector<double> with_keys_of_, with_rows_of_;  // [chunk][rank]
  std::vector<Busiest> busiest_;                     // of each step
  DealCost cost_;
};

}  // namespace ringscope
