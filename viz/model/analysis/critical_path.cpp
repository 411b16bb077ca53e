#include "viz/model/analysis/critical_path.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "viz/model/analysis/dependencies.h"
#include "viz/model/analysis/training_step.h"

namespace ringscope::viz {

namespace {

bool before(SliceId a, SliceId b) { return std::pair(a.row, a.index) < std::pair(b.row, b.index); }

class Walk {
 public:
  explicit Walk(const Trace& trace) : trace_(trace), dependencies_(trace), now_(trace.end_ns) {
    if (!trace.has_model()) return;
    for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank)
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
      for (int rank = 0; rank < static_cast<int>(trace_.ranks.size()); ++rank) {
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
      back_to(transfer_of(trace_, slice).begin_ns, PathSegment::link, at);
    }
  }

  // Fill back to `begin` with what no ring slice explains: overhead or a training step's rest.
  void unexplained_back_to(std::int64_t begin) {
    if (at_ring_.empty()) return back_to(begin, PathSegment::overhead, std::nullopt);
    const std::vector<Stretch>& stretches = at_ring_[static_cast<std::size_t>(rank_)];
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
