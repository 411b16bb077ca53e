#include "viz/data/analysis/ring_moment.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/ring/ring.h"
#include "core/ring/scheme.h"
#include "viz/data/analysis/balance.h"

namespace ringscope::viz {

namespace {

double share(std::int64_t now, std::int64_t begin, std::int64_t end) {
  if (now >= end) return 1;
  return now <= begin ? 0 : static_cast<double>(now - begin) / static_cast<double>(end - begin);
}

// Return the last slice that has begun by `now`, or null.
const TraceEvent* last_begun(std::span<const TraceEvent> slices, std::int64_t now) {
  const auto after = std::partition_point(slices.begin(), slices.end(),
                                          [now](const TraceEvent& s) { return s.begin_ns <= now; });
  return after == slices.begin() ? nullptr : &*std::prev(after);
}

// Return whether a rank has the block that it holds at a moment: its own, or one that it has received all
// messages of.
bool has_come(const Trace& trace, int rank, const RankMoment& moment, std::int64_t now) {
  if (moment.held == rank) return true;
  bool has = false;
  for (const TraceEvent& recv : trace.slices_of(rank, Lane::recv)) {
    if (recv.pass != moment.pass || recv.payload != Payload::kv || recv.kv_owner != moment.held)
      continue;
    if (recv.end_ns > now) return false;
    has = true;
  }
  return has;
}

RankMoment rank_at(const Trace& trace, const Axis& axis, int rank, int step, std::int64_t now) {
  RankMoment moment;
  moment.step = step;
  moment.pass = axis.is_backward(moment.step) ? Pass::backward : Pass::forward;
  const int ring_step = axis.ring_step(moment.step);
  const bool is_whole = trace.info.is_whole();
  const Travel travel = travel_of(trace.info);

  const std::span<const TraceEvent> computes = trace.slices_of(rank, Lane::compute);
  const std::span<const TraceEvent> waits = trace.slices_of(rank, Lane::wait);
  const TraceEvent* compute = last_begun(computes, now);
  const TraceEvent* wait = last_begun(waits, now);
  // The slice of this step has begun or is the next one.
  const TraceEvent* const next = compute == nullptr ? computes.data() : compute + 1;
  const TraceEvent* const end = computes.data() + computes.size();
  // A ring that sends all blocks passes them on at steps at which nothing is attended, too.
  if (ring_step >= 0 && travel.visits_all && (trace.info.hops.empty() || !is_whole))
    moment.kv_owner = RingSchedule{rank, trace.info.world_size}.owner(ring_step);
  for (const TraceEvent* held : {next, compute})
    if (held != nullptr && held != end && held->kv_owner >= 0 && held->step == ring_step &&
        held->pass == moment.pass)
      moment.kv_owner = held->kv_owner;
  moment.held = moment.kv_owner;
  if (moment.held >= 0 && travel.what == Travels::queries)
    moment.held = RingSchedule{rank, trace.info.world_size}.owner(ring_step);
  moment.is_last =
      is_whole && !trace.is_part && !computes.empty() && (next == end || next->pass != moment.pass);
  if (compute != nullptr && compute->step == ring_step && compute->pass == moment.pass)
    moment.progress = share(now, compute->begin_ns, compute->end_ns);
  if (compute != nullptr && now < compute->end_ns) {
    moment.doing = RankMoment::computing;
  } else if (wait != nullptr && now < wait->end_ns) {
    moment.doing = RankMoment::waiting;
    moment.waiting_for = wait->peer();
    moment.has_come = has_come(trace, rank, moment, now);
  } else if ((computes.empty() || compute == &computes.back()) &&
             (waits.empty() || wait == &waits.back())) {
    moment.doing = RankMoment::finished;
  }
  return moment;
}

}  // namespace

std::int64_t under_way_ns(const Trace& trace, const TraceEvent& recv) {
  const std::int64_t sent_ns =
      recv.flow == 0 ? recv.begin_ns : trace.slice(trace.flows[recv.flow - 1].from).begin_ns;
  return std::min(std::max(sent_ns, recv.begin_ns), recv.end_ns);
}

LinkHistory::LinkHistory(const Trace& trace) {
  if (!trace.is_ring) return;
  std::map<std::pair<int, int>, Carried> by_ends;
  const int ranks_a_node = trace.info.world_size / static_cast<int>(nodes_of(trace.info).size());
  for (int dst = 0; dst < trace.rank_count(); ++dst) {
    Carried* last = nullptr;  // mostly the same link again
    for (const TraceEvent& recv : trace.slices_of(dst, Lane::recv)) {
      if (recv.peer() < 0) continue;
      if (last == nullptr || last->src != recv.peer()) {
        last = &by_ends[{recv.peer(), dst}];
        last->src = recv.peer();
        last->dst = dst;
        last->between_nodes = last->src / ranks_a_node != dst / ranks_a_node;
      }
      last->ends.push_back(recv.end_ns);
      last->bytes.push_back(
          saturating_sum(last->bytes.empty() ? 0 : last->bytes.back(), recv.bytes));
      last->under_way_ns += recv.end_ns - under_way_ns(trace, recv);
    }
  }
  for (auto& [ends, link] : by_ends)
    if (link.bytes.back() > 0) links.push_back(std::move(link));
}

RingMoment ring_at(const Trace& trace, const Axis& axis, const LinkHistory& history, AxisMode mode,
                   double position) {
  RingMoment moment;
  if (!trace.is_ring) return moment;
  const int ranks = trace.rank_count();
  std::vector<std::int64_t> now;
  for (int rank = 0; rank < ranks; ++rank) {
    now.push_back(axis.time_at(mode, rank, position));
    moment.ranks.push_back(
        rank_at(trace, axis, rank, axis.step_shown(mode, rank, position), now.back()));
    const TraceEvent* recv = last_begun(trace.slices_of(rank, Lane::recv), now.back());
    if (recv == nullptr) continue;
    const std::int64_t begin_ns = under_way_ns(trace, *recv);
    if (now.back() < begin_ns || now.back() >= recv->end_ns) continue;
    moment.in_flight.push_back({recv->peer(), rank, recv->kv_owner, recv->payload,
                                share(now.back(), begin_ns, recv->end_ns), recv->bytes});
  }
  for (const LinkHistory::Carried& link : history.links) {
    const std::int64_t at = now[link.dst];
    const auto arrived = static_cast<std::size_t>(
        std::upper_bound(link.ends.begin(), link.ends.end(), at) - link.ends.begin());
    moment.links.push_back({link.src, link.dst, arrived == 0 ? 0 : link.bytes[arrived - 1],
                            link.bytes.back(), link.bytes_per_second(), link.between_nodes});
  }
  return moment;
}

}  // namespace ringscope::viz
