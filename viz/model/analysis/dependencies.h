// Sums of counts that a trace claims: whatever it claims, they stay counts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// total + more, for both >= 0; the largest number where it does not fit.
inline std::int64_t saturating_sum(std::int64_t total, std::int64_t more) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(total, more, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

// ---
// What waited for what in a recording of ours: which transfer brought the block that a wait slice
// waits for, when that transfer was under way, and what had to happen before it could begin.
// Follows from how core/ring posts its hops: the block of ring step t comes by the hop of step
// t - 1, in the order kv(0), dkv(0), kv(1), … (with K buffers kv(0) to kv(K - 2) come first); what is
// gathered at once comes before all else.

// One block on its way to a rank.
struct Transfer {
  int src = -1;                    // -1: unknown
  std::int64_t send_begin_ns = 0;  // when the sender was at it; recv_begin_ns where that is unknown
  std::int64_t recv_begin_ns = 0;
  std::int64_t begin_ns = 0;  // when both were: it is under way from here
  std::int64_t end_ns = 0;
};
// That of a recv slice.
Transfer transfer_of(const Trace& trace, const Slice& recv);

// Slices are named by rank, lane and index within the lane's row.
struct RankSlice {
  int rank = 0;
  ringscope::Lane lane = ringscope::Lane::compute;
  std::uint32_t index = 0;
};

class Dependencies {
 public:
  // `trace` is a recording of ours and must outlive this.
  explicit Dependencies(const Trace& trace);

  const std::vector<Slice>& slices(int rank, ringscope::Lane lane) const {
    return trace_.slices_of(rank, lane);
  }
  const Slice& slice(const RankSlice& s) const { return slices(s.rank, s.lane)[s.index]; }

  // The recv slice, by index, that ended the wait.
  std::optional<std::uint32_t> awaited(int rank, const Slice& wait) const;
  std::optional<std::uint32_t> compute_at(int rank, Pass pass, int step) const;
  std::optional<std::uint32_t> recv_at(int rank, Pass pass, Payload payload, int step) const;

  // What the rank's thread did last before slice `s` of it began: it computed or waited.
  std::optional<RankSlice> before_on_thread(const RankSlice& s) const;
  // What the transfer of a recv slice could not begin without, on either end; all that is known.
  std::vector<RankSlice> needed_by(const RankSlice& recv) const;
  // When `rank`, at either end of it, had all that the transfer of `recv` needs; none: unknown.
  std::optional<std::int64_t> ready_ns(int rank, const Slice& recv) const;

 private:
  // What a slice is about in the upper half, its index in the lower.
  using Table = std::vector<std::uint64_t>;

  void needed_at(int rank, const Slice& recv, std::vector<RankSlice>& needed) const;
  std::optional<std::uint32_t> last_compute(int rank, Pass pass) const;
  bool is_rank(int rank) const { return rank >= 0 && rank < static_cast<int>(computes_.size()); }

  const Trace& trace_;
  int world_size_ = 1;
  bool allgather_ = false;
  int kv_buffers_ = 2;
  std::vector<Table> computes_, recvs_;  // one a rank, ascending
};

}  // namespace ringscope::viz
