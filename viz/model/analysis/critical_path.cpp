#include "viz/model/analysis/critical_path.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "viz/model/analysis/ring_moment.h"

namespace ringscope::viz {

namespace {

// ---
// Finds which transfer brought the block that a wait slice waits for, and what had to happen before a
// transfer could begin. This follows from how core/ring posts its hops: the block of ring step t comes
// by the hop of step t - 1, in the order kv(0), dkv(0), kv(1), … (with K buffers kv(0) to kv(K - 2)
// come first). All-gathered blocks come before all else.

constexpr std::uint64_t key(Pass pass, Payload payload, std::int32_t step) {
  return static_cast<std::uint64_t>(pass) << 63 | static_cast<std::uint64_t>(payload) << 62 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(step) & 0x3fffffff) << 32;
}

std::vector<std::uint64_t> table_of(const std::vector<Slice>& slices) {
  std::vector<std::uint64_t> table;
  table.reserve(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i)
    table.push_back(key(slices[i].pass, slices[i].payload, slices[i].step) | i);
  std::sort(table.begin(), table.end());
  return table;
}

std::optional<std::uint32_t> look_up(const std::vector<std::uint64_t>& table, std::uint64_t what) {
  const auto at = std::lower_bound(table.begin(), table.end(), what);
  if (at == table.end() || *at >> 32 != what >> 32) return std::nullopt;
  return static_cast<std::uint32_t>(*at);
}

// Return the slice with the greatest step <= that of `what`.
std::optional<std::uint32_t> look_up_last(const std::vector<std::uint64_t>& table,
                                          std::uint64_t what) {
  const auto at = std::upper_bound(table.begin(), table.end(), what | 0xffffffff);
  if (at == table.begin() || *std::prev(at) >> 62 != what >> 62) return std::nullopt;
  return static_cast<std::uint32_t>(*std::prev(at));
}

// A RankSlice names a slice by rank, lane and index within the lane's row.
struct RankSlice {
  int rank = 0;
  RingLane lane = RingLane::compute;
  std::uint32_t index = 0;
};

class Dependencies {
 public:
  // `trace` is a recording of ours and must outlive this.
  explicit Dependencies(const Trace& trace)
      : trace_(trace),
        world_size_(trace.run->world_size),
        allgather_(trace.run->scheme == "allgather"),
        kv_buffers_(trace.run->kv_buffers > 0 ? std::min(trace.run->kv_buffers, world_size_) : 2) {
    for (int rank = 0; rank < trace.rank_count(); ++rank) {
      computes_.push_back(table_of(slices(rank, RingLane::compute)));
      recvs_.push_back(table_of(slices(rank, RingLane::recv)));
    }
  }

  const std::vector<Slice>& slices(int rank, RingLane lane) const {
    return trace_.slices_of(rank, lane);
  }
  const Slice& slice(const RankSlice& s) const { return slices(s.rank, s.lane)[s.index]; }

  // Return the index of the recv slice that ended the wait.
  std::optional<std::uint32_t> awaited(int rank, const Slice& wait) const {
    if (allgather_) {
      // There is one wait for all blocks, which ends with the last one, and then one for each sum.
      if (wait.payload == Payload::kv)
        return recv_at(rank, wait.pass, Payload::kv, world_size_ - 2);
      return recv_at(rank, wait.pass, Payload::dkv, wait.step);
    }
    // The sum of the rank's own block comes home by the last hop.
    const bool home = wait.payload == Payload::dkv && wait.kv_owner == rank;
    return recv_at(rank, wait.pass, wait.payload, home ? world_size_ - 1 : wait.step - 1);
  }

  // Return the rank's last computation or wait before slice `s` on its thread.
  std::optional<RankSlice> before_on_thread(const RankSlice& s) const {
    const std::int64_t begin = slice(s).begin_ns;
    std::optional<RankSlice> last;
    for (const RingLane lane : {RingLane::compute, RingLane::wait}) {
      const std::vector<Slice>& all = slices(s.rank, lane);
      std::size_t i = s.index;
      if (lane != s.lane)
        i = static_cast<std::size_t>(
            std::partition_point(all.begin(), all.end(),
                                 [begin](const Slice& x) { return x.end_ns <= begin; }) -
            all.begin());
      if (i == 0) continue;
      // If both end at the same time, the wait came after.
      if (!last || all[i - 1].end_ns >= slice(*last).end_ns)
        last = RankSlice{s.rank, lane, static_cast<std::uint32_t>(i - 1)};
    }
    return last;
  }

  // Return what the transfer of a recv slice had to wait for on either end, as far as it is known.
  std::vector<RankSlice> needed_by(const RankSlice& recv) const {
    const Slice& received = slice(recv);
    std::vector<RankSlice> needed;
    needed_at(recv.rank, received, needed);
    if (is_rank(received.peer)) needed_at(received.peer, received, needed);
    return needed;
  }

 private:
  // A Table entry holds what a slice is about in its upper half and the slice's index in its lower.
  using Table = std::vector<std::uint64_t>;

  bool is_rank(int rank) const { return rank >= 0 && rank < static_cast<int>(computes_.size()); }
  std::optional<std::uint32_t> compute_at(int rank, Pass pass, int step) const {
    return look_up(computes_[rank], key(pass, Payload::kv, step));
  }
  std::optional<std::uint32_t> last_compute(int rank, Pass pass) const {
    return look_up_last(computes_[rank], key(pass, Payload::kv, world_size_ - 1));
  }
  std::optional<std::uint32_t> recv_at(int rank, Pass pass, Payload payload, int step) const {
    return look_up(recvs_[rank], key(pass, payload, step));
  }
  void needed_at(int rank, const Slice& recv, std::vector<RankSlice>& needed) const {
    const auto add = [&](RingLane lane, std::optional<std::uint32_t> index) {
      if (index) needed.push_back({rank, lane, *index});
    };
    const int step = recv.step;
    const bool kv = recv.payload == Payload::kv, backward = recv.pass == Pass::backward;
    // A block is passed on after it has come, and can come when the buffer's last block is attended.
    // A sum is passed on when the rank's own share is in it.
    if (step > 0) add(RingLane::recv, recv_at(rank, recv.pass, recv.payload, step - 1));
    if (allgather_) {
      if (!kv) add(RingLane::compute, last_compute(rank, recv.pass));
    } else if (kv) {
      // The hop is posted behind the sum of the step whose block was in the buffer.
      const int consumed = step + 1 - kv_buffers_;
      if (consumed >= 0) add(RingLane::compute, compute_at(rank, recv.pass, consumed));
      if (consumed >= 0 && backward)
        add(RingLane::recv, recv_at(rank, recv.pass, Payload::dkv, consumed));
    } else {
      add(RingLane::compute, compute_at(rank, recv.pass, step));
      // The sum is posted behind the blocks' hops that were posted before it.
      add(RingLane::recv, recv_at(rank, recv.pass, Payload::kv, step + kv_buffers_ - 2));
    }
    if (step == 0 && kv && backward) add(RingLane::compute, last_compute(rank, Pass::forward));
  }

  const Trace& trace_;
  int world_size_ = 1;
  bool allgather_ = false;
  int kv_buffers_ = 2;
  std::vector<Table> computes_, recvs_;  // one per rank, ascending
};

// ---
// Walks back along them.

bool before(SliceId a, SliceId b) { return std::pair(a.row, a.index) < std::pair(b.row, b.index); }

class Walk {
 public:
  explicit Walk(const Trace& trace) : trace_(trace), dependencies_(trace), now_(trace.end_ns) {
    if (!trace.has_model()) return;
    for (int rank = 0; rank < trace.rank_count(); ++rank)
      at_ring_.push_back(ring_stretches(trace, rank));
  }

  CriticalPath path() {
    std::optional<RankSlice> at = last_slice();
    if (at) rank_ = at->rank;
    // Every slice is on the path once, unless the times contradict each other.
    for (std::size_t left = trace_.slice_count; at && left > 0 && now_ > trace_.begin_ns; --left) {
      pass(*at);
      at = what_held_up(*at);
    }
    unexplained_back_to(trace_.begin_ns);
    std::reverse(path_.segments.begin(), path_.segments.end());
    std::sort(path_.slices.begin(), path_.slices.end(), before);
    return std::move(path_);
  }

 private:
  std::optional<RankSlice> last_slice() const {
    std::optional<RankSlice> last;
    for (const RingLane lane : {RingLane::compute, RingLane::recv, RingLane::wait})
      for (int rank = 0; rank < trace_.rank_count(); ++rank) {
        const std::vector<Slice>& slices = dependencies_.slices(rank, lane);
        if (slices.empty()) continue;
        if (!last || slices.back().end_ns > dependencies_.slice(*last).end_ns)
          last = RankSlice{rank, lane, static_cast<std::uint32_t>(slices.size() - 1)};
      }
    return last;
  }

  // Put a slice on the path, after the overhead that came after it in time.
  void pass(const RankSlice& at) {
    const Slice& slice = dependencies_.slice(at);
    if (at.lane == RingLane::wait) return;  // what ended the wait is on the path instead
    unexplained_back_to(slice.end_ns);
    rank_ = at.rank;
    if (at.lane == RingLane::compute) {
      back_to(slice.begin_ns, PathSegment::compute, at);
    } else {
      back_to(under_way_ns(trace_, slice), PathSegment::link, at);
    }
  }

  // Fill back to `begin` with what no ring slice explains: overhead or a training step's rest.
  void unexplained_back_to(std::int64_t begin) {
    if (at_ring_.empty()) return back_to(begin, PathSegment::overhead, std::nullopt);
    const std::vector<Stretch>& stretches = at_ring_[rank_];
    for (auto ring = stretches.rbegin(); ring != stretches.rend(); ++ring) {
      back_to(std::max(begin, ring->end_ns), PathSegment::compute, std::nullopt);
      back_to(std::max(begin, ring->begin_ns), PathSegment::overhead, std::nullopt);
    }
    back_to(begin, PathSegment::compute, std::nullopt);
  }

  // Add a segment from `begin` to where the path has got to, unless it is empty.
  void back_to(std::int64_t begin, PathSegment::Kind kind, const std::optional<RankSlice>& at) {
    begin = std::max(begin, trace_.begin_ns);
    if (begin >= now_) return;
    PathSegment segment{kind, rank_, begin, now_, at.has_value(), {}};
    if (at) {
      segment.slice = {trace_.row_of(at->rank, at->lane), at->index};
      path_.slices.push_back(segment.slice);
    }
    (kind == PathSegment::compute ? path_.compute_ns
     : kind == PathSegment::link  ? path_.link_ns
                                  : path_.overhead_ns) += now_ - begin;
    path_.segments.push_back(segment);
    now_ = begin;
  }

  std::optional<RankSlice> what_held_up(const RankSlice& at) const {
    const Slice& slice = dependencies_.slice(at);
    if (at.lane == RingLane::compute) return dependencies_.before_on_thread(at);
    if (at.lane == RingLane::recv) {
      const std::vector<RankSlice> needed = dependencies_.needed_by(at);
      const auto last = std::max_element(
          needed.begin(), needed.end(), [&](const RankSlice& a, const RankSlice& b) {
            return dependencies_.slice(a).end_ns < dependencies_.slice(b).end_ns;
          });
      if (last != needed.end()) return *last;
      return std::nullopt;
    }
    const auto recv = dependencies_.awaited(at.rank, slice);
    if (recv) {
      const RankSlice transfer{at.rank, RingLane::recv, *recv};
      const std::int64_t arrival = dependencies_.slice(transfer).end_ns;
      if (slice.begin_ns <= arrival && arrival <= slice.end_ns) return transfer;
    }
    return dependencies_.before_on_thread(at);
  }

  const Trace& trace_;
  Dependencies dependencies_;
  CriticalPath path_;
  std::vector<std::vector<Stretch>> at_ring_;  // [rank]; only in a training step
  std::int64_t now_;
  int rank_ = 0;
};

}  // namespace

bool CriticalPath::contains(SliceId id) const {
  return std::binary_search(slices.begin(), slices.end(), id, before);
}

CriticalPath critical_path_of(const Trace& trace) {
  if (!trace.is_ring()) return {};
  return Walk(trace).path();
}

}  // namespace ringscope::viz
