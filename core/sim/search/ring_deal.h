// Chunks dealt out to the ranks of a ring, and what that costs: the sum over steps of the slowest
// rank's work, as balance_of() counts it. Keeps what it takes to tell the cost of exchanging two
// chunks in O(world_size), and to do it in O(world_size + chunks).
//
// Work of rank r with owner o lies on step (r - o) mod N. Exchanging chunks of two ranks changes
// their rows and their columns in that table, so at every step the work of at most four ranks; with
// the five busiest ranks of every step known, its new maximum follows.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

// [queries' chunk][keys' chunk], and the same transposed, for `chunks` chunks and one more that has
// nothing to do with any: it stands for "no chunk".
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

// What a deal costs: less of the first, and among equals less of the second, which tells how far
// ranks are from equal where the slowest one does not show it.
struct DealCost {
  double slowest = 0;  // sum over steps of the rank that has most
  double squares = 0;  // sum over (rank, step) of work squared
};

class RingDeal {
 public:
  static constexpr int kNobody = -1;

  // rank_of: of each chunk, or kNobody. `work` must outlive this.
  RingDeal(const ChunkWork& work, int world_size, const std::vector<int>& rank_of);

  int world_size() const { return world_size_; }
  int rank_of(int chunk) const { return rank_of_[static_cast<std::size_t>(chunk)]; }
  const std::vector<int>& rank_of() const { return rank_of_; }
  const DealCost& cost() const { return cost_; }

  // With chunks a and b of two ranks exchanged.
  DealCost cost_of_exchange(int a, int b) const;
  void exchange(int a, int b);
  // With a chunk that nobody has given to `rank`.
  DealCost cost_of_gift(int chunk, int rank) const;
  void give(int chunk, int rank);

  // The rank that has most to do at a step.
  int slowest_rank(int step) const { return busiest_[static_cast<std::size_t>(step)].ranks[0]; }
  // Of a rank at a step.
  double work_at(int step, int rank) const {
    return work_at_[static_cast<std::size_t>(step) * static_cast<std::size_t>(world_size_) +
                    static_cast<std::size_t>(rank)];
  }

 private:
  // A rank gives one chunk away and takes another; rank kNobody: there is none.
  struct Trade {
    int rank, out, in;
  };
  struct Busiest {
    std::array<int, 5> ranks;
    int count = 0;
    double least = 0;  // work of the last of them; 0 when they are all
  };
  struct NewWork {
    int rank;
    double work;
  };

  int step_of(int rank, int owner) const {
    return rank >= owner ? rank - owner : rank - owner + world_size_;
  }
  double& work_at(int step, int rank) {
    return work_at_[static_cast<std::size_t>(step) * static_cast<std::size_t>(world_size_) +
                    static_cast<std::size_t>(rank)];
  }
  // Work of a chunk's rows with a rank's keys, and of a rank's rows with a chunk's keys.
  const double* with_keys_of(int chunk) const {
    return with_keys_of_.data() +
           static_cast<std::size_t>(chunk) * static_cast<std::size_t>(world_size_);
  }
  const double* with_rows_of(int chunk) const {
    return with_rows_of_.data() +
           static_cast<std::size_t>(chunk) * static_cast<std::size_t>(world_size_);
  }
  double after_trades(int rank, int owner, const Trade& a, const Trade& b) const;
  int changes_at(int step, const Trade& a, const Trade& b, std::array<NewWork, 4>& changes) const;
  DealCost cost_of(const Trade& a, const Trade& b) const;
  void carry_out(const Trade& a, const Trade& b);
  bool may_be_busiest(int step, double work) const;
  void rank_busiest(int step);

  const ChunkWork& work_;
  int world_size_;
  std::vector<int> rank_of_;
  std::vector<double> work_at_;                      // [step][rank]
  std::vector<double> with_keys_of_, with_rows_of_;  // [chunk][rank]
  std::vector<Busiest> busiest_;                     // of each step
  DealCost cost_;
};

}  // namespace ringscope
