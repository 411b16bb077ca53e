// Walks back along the graph of the recorded scheme's loop (core/tools/sim/graph.h), whose tasks here
// end when their slices did.
#include "viz/data/analysis/critical_path.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tools/explain/recorded_run.h"
#include "viz/data/analysis/findings.h"
#include "viz/data/analysis/ring_moment.h"

namespace ringscope::viz {

namespace {

constexpr std::int64_t kNever = INT64_MIN;

bool before(SliceId a, SliceId b) { return std::pair(a.row, a.index) < std::pair(b.row, b.index); }

// The tasks of a recorded run, with their slices.
class RecordedTasks {
 public:
  RecordedTasks(const Trace& trace, const TaskGraph& graph) : graph_(graph) {
    for (const Lane lane : {Lane::compute, Lane::recv})
      for (int rank = 0; rank < trace.rank_count(); ++rank) {
        const std::uint32_t row = trace.row_of(rank, lane);
        const std::span<const TraceEvent> slices = trace.slices(row);
        for (std::uint32_t i = 0; i < slices.size(); ++i) {
          const TraceEvent& s = slices[i];
          slices_[{lane, s.pass, s.payload, s.step, s.peer(), rank}].all.push_back({row, i});
        }
      }
    share_slices();
    ends_.assign(graph.tasks.size(), kNever);
    for (std::size_t k = 0; k < ends_.size(); ++k) {
      const std::size_t i = graph.order.empty() ? k : static_cast<std::size_t>(graph.order[k]);
      if (!of_task_[i].empty())
        ends_[i] = trace.slice(of_task_[i].back()).end_ns;
      else if (!graph.tasks[i].is_hop())  // a message that was not recorded leads nowhere
        for (const std::int32_t earlier : graph.earlier(i))
          ends_[i] = std::max(ends_[i], ends_[static_cast<std::size_t>(earlier)]);
    }
  }

  // Return the computations or arrivals of messages that a task is, as far as they were recorded.
  std::span<const SliceId> slices_of(std::size_t task) const { return of_task_[task]; }
  // Return the last task of `rank`, or what arrived there last.
  std::optional<std::size_t> last_of(int rank) const {
    std::optional<std::size_t> last;
    for (std::size_t i = 0; i < ends_.size(); ++i)
      if (rank_of(i) == rank && ends_[i] != kNever && (!last || ends_[i] >= ends_[*last])) last = i;
    return last;
  }
  // Return what a task waited for last, of its own rank if several end together; none if nothing of it
  // was recorded.
  std::optional<std::size_t> held_up_by(std::size_t task) const {
    std::optional<std::size_t> latest;
    const auto rank_by_end = [&](std::size_t i) {
      return std::pair(ends_[i], rank_of(i) == rank_of(task));
    };
    for (const std::int32_t number : graph_.earlier(task)) {
      const auto earlier = static_cast<std::size_t>(number);
      if (ends_[earlier] != kNever && (!latest || rank_by_end(earlier) > rank_by_end(*latest)))
        latest = earlier;
    }
    return latest;
  }

 private:
  // Lane, pass, payload, step, sender, and the rank itself.
  using Key = std::tuple<Lane, Pass, Payload, int, int, int>;
  // What has one key: slices by time, and tasks in the order of their loop.
  struct Alike {
    std::vector<SliceId> all;
    std::size_t tasks = 0, next = 0;
  };

  // A hop is its receiver's.
  int rank_of(std::size_t i) const {
    return graph_.tasks[i].is_hop() ? graph_.tasks[i].to : graph_.tasks[i].rank;
  }
  Alike* alike(const Task& t) {
    if (!t.is_hop() && t.kind != Task::Kind::attend) return nullptr;
    const auto found =
        slices_.find(t.is_hop() ? Key{Lane::recv, t.pass, t.payload, t.step, t.rank, t.to}
                                : Key{Lane::compute, t.pass, Payload::kv, t.step, -1, t.rank});
    return found == slices_.end() ? nullptr : &found->second;
  }
  // Give tasks of one key equal shares of its slices.
  void share_slices() {
    for (const Task& task : graph_.tasks)
      if (Alike* const of = alike(task)) ++of->tasks;
    for (const Task& task : graph_.tasks) {
      std::span<const SliceId>& mine = of_task_.emplace_back();
      Alike* const of = alike(task);
      if (of == nullptr) continue;
      const std::size_t first = of->next * of->all.size() / of->tasks;
      const std::size_t last = ++of->next * of->all.size() / of->tasks;
      mine = std::span<const SliceId>(of->all).subspan(first, last - first);
    }
  }

  const TaskGraph& graph_;
  std::map<Key, Alike> slices_;
  std::vector<std::span<const SliceId>> of_task_;  // [task]
  std::vector<std::int64_t> ends_;                 // [task]
};

class Walk {
 public:
  explicit Walk(const Trace& trace) : trace_(trace), now_(trace.end_ns) {
    if (!trace.has_model()) return;
    for (int rank = 0; rank < trace.rank_count(); ++rank)
      at_ring_.push_back(ring_stretches(trace, rank));
  }

  CriticalPath path(const RecordedTasks& tasks) {
    rank_ = last_rank();
    for (auto at = tasks.last_of(rank_); at && now_ > trace_.begin_ns; at = tasks.held_up_by(*at))
      for (std::size_t i = tasks.slices_of(*at).size(); i-- > 0;) pass(tasks.slices_of(*at)[i]);
    unexplained_back_to(trace_.begin_ns);
    std::reverse(path_.segments.begin(), path_.segments.end());
    std::sort(path_.slices.begin(), path_.slices.end(), before);
    return std::move(path_);
  }

 private:
  // Return the rank whose computation, wait or arrival ends last.
  int last_rank() const {
    std::pair<std::int64_t, int> last{kNever, 0};
    for (const Lane lane : {Lane::compute, Lane::recv, Lane::wait})
      for (int rank = 0; rank < trace_.rank_count(); ++rank)
        if (const auto& slices = trace_.slices_of(rank, lane);
            !slices.empty() && slices.back().end_ns > last.first)
          last = {slices.back().end_ns, rank};
    return last.second;
  }

  // Put a slice on the path, after the overhead that came after it in time.
  void pass(SliceId id) {
    const TraceEvent& slice = trace_.slice(id);
    unexplained_back_to(slice.end_ns);
    rank_ = trace_.rank_of_row(id.row);
    if (slice.lane == Lane::compute)
      back_to(slice.begin_ns, PathSegment::compute, id);
    else
      back_to(under_way_ns(trace_, slice), PathSegment::link, id);
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
  void back_to(std::int64_t begin, PathSegment::Kind kind, std::optional<SliceId> slice) {
    begin = std::max(begin, trace_.begin_ns);
    if (begin >= now_) return;
    path_.segments.push_back(
        {kind, rank_, begin, now_, slice.has_value(), slice.value_or(SliceId{})});
    if (slice) path_.slices.push_back(*slice);
    (kind == PathSegment::compute ? path_.compute_ns
     : kind == PathSegment::link  ? path_.link_ns
                                  : path_.overhead_ns) += now_ - begin;
    now_ = begin;
  }

  const Trace& trace_;
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
  if (!trace.is_ring || trace.rank_count() != trace.info.world_size) return {};
  try {
    std::optional<Recording> as_if_whole;  // of a run that broke off there is a path as well
    if (trace.info.failure) as_if_whole.emplace(trace).info.failure.reset();
    const RecordedRun run(as_if_whole ? *as_if_whole : static_cast<const Recording&>(trace));
    return Walk(trace).path(RecordedTasks(trace, run.graph()));
  } catch (const InputError&) {  // nothing was recorded
    return {};
  }
}

}  // namespace ringscope::viz
