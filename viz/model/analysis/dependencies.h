// Finds what waited for what in a recording of ours, and sums counts without overflow.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Return total + more, for both >= 0, or the largest number if the sum does not fit.
inline std::int64_t saturating_sum(std::int64_t total, std::int64_t more) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(total, more, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

// Call each(rank, slice) for all slices of a lane in a recording of ours, rank by rank.
template <class Each>
void for_each_slice(const Trace& trace, RingLane lane, Each&& each) {
  for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank)
    for (const Slice& slice : trace.slices_of(rank, lane)) each(rank, slice);
}

// ---
// Finds which transfer brought the block that a wait slice waits for, when that transfer was under
// way, and what had to happen before it could begin. This follows from how core/ring posts its
// hops: the block of ring step t comes by the hop of step t - 1, in the order kv(0), dkv(0), kv(1),
// … (with K buffers kv(0) to kv(K - 2) come first). All-gathered blocks come before all else.

// A Transfer moves one block to a rank.
struct Transfer {
  int src = -1;               // -1 if unknown
  std::int64_t begin_ns = 0;  // when both ends had begun, so that the block is under way
  std::int64_t end_ns = 0;
};
// Return the transfer of a recv slice.
Transfer transfer_of(const Trace& trace, const Slice& recv);

// A RankSlice names a slice by rank, lane and index within the lane's row.
struct RankSlice {
  int rank = 0;
  RingLane lane = RingLane::compute;
  std::uint32_t index = 0;
};

class Dependencies {
 public:
  // `trace` is a recording of ours and must outlive this.
  explicit Dependencies(const Trace& trace);

  const std::vector<Slice>& slices(int rank, RingLane lane) const {
    return trace_.slices_of(rank, lane);
  }
  const Slice& slice(const RankSlice& s) const { return slices(s.rank, s.lane)[s.index]; }

  // Return the index of the recv slice that ended the wait.
  std::optional<std::uint32_t> awaited(int rank, const Slice& wait) const;
  std::optional<std::uint32_t> compute_at(int rank, Pass pass, int step) const;
  std::optional<std::uint32_t> recv_at(int rank, Pass pass, Payload payload, int step) const;

  // Return the rank's last computation or wait before slice `s` on its thread.
  std::optional<RankSlice> before_on_thread(const RankSlice& s) const;
  // Return what the transfer of a recv slice had to wait for on either end, as far as it is known.
  std::vector<RankSlice> needed_by(const RankSlice& recv) const;

 private:
  // A Table entry holds what a slice is about in its upper half and the slice's index in its lower.
  using Table = std::vector<std::uint64_t>;

  void needed_at(int rank, const Slice& recv, std::vector<RankSlice>& needed) const;
  std::optional<std::uint32_t> last_compute(int rank, Pass pass) const;
  bool is_rank(int rank) const { return rank >= 0 && rank < static_cast<int>(computes_.size()); }

  const Trace& trace_;
  int world_size_ = 1;
  bool allgather_ = false;
  int kv_buffers_ = 2;
  std::vector<Table> computes_, recvs_;  // one per rank, ascending
};

}  // namespace ringscope::viz
