#include "viz/data/analysis/findings.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kMostExplained = 1024;  // ranks, of which causes are sought

// Return the indices of the longest of some times, also those that differ by less than figures can tell;
// none if no time is positive.
std::vector<int> longest_of(const std::vector<std::int64_t>& times) {
  constexpr double kAsLong = 0.995;
  const std::int64_t longest = times.empty() ? 0 : *std::max_element(times.begin(), times.end());
  std::vector<int> found;
  for (std::size_t i = 0; longest > 0 && i < times.size(); ++i)
    if (static_cast<double>(times[i]) >= kAsLong * static_cast<double>(longest))
      found.push_back(static_cast<int>(i));
  return found;
}

// Fill in how long a rank computed and waited. Return the time in which it added up gradients.
std::int64_t count_slices(const Trace& trace, int rank, RankIdle& counted) {
  for (const TraceEvent& slice : trace.slices_of(rank, Lane::compute))
    counted.compute += slice.duration_ns();
  std::vector<std::int64_t> waited_for(trace.ranks.size());
  for (const TraceEvent& wait : trace.slices_of(rank, Lane::wait)) {
    counted.wait_ns += wait.duration_ns();
    if (wait.peer() < 0 || static_cast<std::size_t>(wait.peer()) >= waited_for.size()) continue;
    waited_for[wait.peer()] += wait.duration_ns();
  }
  counted.waited_for = longest_of(waited_for);
  if (!counted.waited_for.empty()) counted.waited_for_ns = waited_for[counted.waited_for[0]];
  std::int64_t reduction = 0;
  if (trace.has_model()) {
    for (const TraceEvent& part : model_slices(trace, rank))
      if (part.lane == Lane::communication) reduction += part.duration_ns();
    counted.compute += trace.wall_ns() - reduction;
    for (const Stretch& ring : ring_stretches(trace, rank))
      counted.compute -= ring.end_ns - ring.begin_ns;
  }
  counted.compute = std::clamp<std::int64_t>(counted.compute, 0, trace.wall_ns());
  return std::min(reduction, trace.wall_ns() - counted.compute);
}

// Split `idle` nanoseconds by what they were lost to. Where that is more than there are, as where a
// replay was longer than the run, each gets its share.
void split_idle(std::int64_t idle, const RankLosses& losses, RankIdle& rank) {
  const auto usable = [](double seconds) {
    return seconds > 0 ? std::min(1e9 * seconds, 1e18) : 0;
  };
  double sum = usable(losses.hops);
  for (const double seconds : losses.by_cause) sum += usable(seconds);
  const double scale = std::min(1.0, static_cast<double>(idle) / std::max(sum, 1.0));
  std::int64_t left = idle;
  const auto take = [&](double seconds, std::int64_t& part) {
    const std::int64_t ns =
        std::min(left, static_cast<std::int64_t>(std::llround(scale * usable(seconds))));
    part += ns;
    left -= ns;
  };
  for (std::size_t i = 0; i < losses.by_cause.size(); ++i)
    take(losses.by_cause[i], rank.by_cause[i]);
  take(losses.hops, rank.hops);
  rank.rest = left;
}

}  // namespace

std::vector<int> IdleReport::longest_waiting() const {
  std::vector<std::int64_t> times;
  for (const RankIdle& rank : ranks) times.push_back(rank.wait_ns);
  return longest_of(times);
}

Explanation explanation_of(const Trace& trace) {
  if (!trace.is_ring || trace.is_part || trace.ranks.size() > kMostExplained ||
      trace.slice_count > kMostSlices)
    return {};
  try {
    return explain(trace);
  } catch (const InputError&) {  // nothing was recorded
    return {};
  }
}

IdleReport idle_of(const Trace& trace, const Explanation& why) {
  IdleReport report;
  if (!trace.is_ring) return report;
  report.wall_ns = trace.wall_ns();
  const std::vector<SliceId> waits = unfinished_waits(trace);
  for (int rank = 0; rank < trace.rank_count(); ++rank) {
    RankIdle& idle = report.ranks.emplace_back();
    // A rank that has nothing in a failed run has not come to anything.
    idle.recorded = !trace.info.is_whole() ||
                    std::any_of(std::begin(kAllLanes), std::end(kAllLanes), [&](const Lane lane) {
                      return !trace.slices_of(rank, lane).empty();
                    });
    if (!idle.recorded) continue;
    idle.hops = count_slices(trace, rank, idle);
    std::int64_t lost = report.wall_ns - idle.compute - idle.hops;
    for (const SliceId wait : waits)
      if (trace.rank_of_row(wait.row) == rank)
        idle.in_vain = std::min(lost, trace.slice(wait).duration_ns());
    lost -= idle.in_vain;
    split_idle(lost, why.ranks.empty() ? RankLosses{} : why.ranks[rank], idle);
  }
  return report;
}

}  // namespace ringscope::viz
