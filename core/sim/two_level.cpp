#include "core/sim/two_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/sim/account.h"
#include "core/sim/ring_times.h"

namespace ringscope {

Simulation simulate_two_level(const SimulationRequest& request, const Work& work,
                              const Machine& machine) {
  const Problem& job = request.job;
  job.ranks_a_node();
  if (machine.cores > 0 && machine.cores < job.world_size)
    throw InputError(
        fmt::format("cores: {} given for {} ranks; accepted in a two-level ring: at "
                    "least as many",
                    machine.cores, job.world_size));
  Account account(request, work, machine);
  TwoLevelHops hops(request, account);
  if (request.pace == Pace::in_step) {
    simulate_two_level_in_step(account, hops, request.with_path);
  } else {
    simulate_two_level_with_buffers(account, hops, request.with_path);
  }
  return std::move(account.result);
}

namespace {

// Return the longest part of `span` outside of all `busy` slices, which follow each other. `next`
// is the first of them that may end after this span or a later one begins.
template <class Slices>
TimeSpan longest_free_part(TimeSpan span, const Slices& busy, std::size_t& next) {
  while (next < busy.size() && busy[next].span.end <= span.begin) ++next;
  TimeSpan longest{span.end, span.end};
  double free_from = span.begin;
  const auto take = [&](double until) {
    if (until - free_from > longest.seconds()) longest = {free_from, until};
  };
  for (std::size_t k = next; k < busy.size() && busy[k].span.begin < span.end; ++k) {
    take(busy[k].span.begin);
    free_from = std::max(free_from, busy[k].span.end);
  }
  take(span.end);
  return longest;
}

}  // namespace

TwoLevelHops::TwoLevelHops(const SimulationRequest& request, Account& account)
    : request_(request),
      account_(account),
      has_events_(!request.recorded.empty() && request.sink != nullptr) {
  if (!has_events_) return;
  sent_.resize(request.recorded.size());
  received_.resize(request.recorded.size());
}

void TwoLevelHops::moved(Way way, const Hop& hop, TimeSpan span) {
  account_.result.ranks[static_cast<std::size_t>(hop.sender)].bytes_sent += hop.bytes;
  const auto keep = [&](std::vector<Lanes>& lanes, int rank) {
    if (!is_recorded(rank)) return;
    Lanes& mine = lanes[static_cast<std::size_t>(rank)];
    (way == Way::here ? mine.here : mine.next_node).push_back({span, hop, way});
  };
  keep(sent_, hop.sender);
  keep(received_, hop.receiver);
}

void TwoLevelHops::end_pass(double origin_s) {
  for (std::size_t rank = 0; rank < sent_.size(); ++rank) {
    show(static_cast<int>(rank), Lane::send, sent_[rank], origin_s);
    show(static_cast<int>(rank), Lane::recv, received_[rank], origin_s);
    sent_[rank] = received_[rank] = {};
  }
}

void TwoLevelHops::show(int rank, Lane lane, Lanes& slices, double origin_s) {
  std::vector<Slice>& all = slices.here;
  const std::size_t here = all.size();
  std::size_t next = 0;
  for (Slice& slice : slices.next_node) slice.span = longest_free_part(slice.span, all, next);
  all.insert(all.end(), slices.next_node.begin(), slices.next_node.end());
  std::inplace_merge(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(here), all.end(),
                     [](const Slice& a, const Slice& b) {
                       return std::pair(a.span.begin, a.span.end) <
                              std::pair(b.span.begin, b.span.end);
                     });

  const std::int64_t n = account_.world_size();
  std::int64_t lane_end = 0;
  for (const Slice& slice : all) {
    const Hop& hop = slice.hop;
    TraceEvent event{.lane = lane, .pass = account_.pass(), .payload = hop.payload};
    event.step = hop.step;
    event.kv_owner = hop.owner;
    event.begin_ns = std::max(to_ns(origin_s + slice.span.begin), lane_end);
    event.end_ns = std::max(to_ns(origin_s + slice.span.end), event.begin_ns);
    event.bytes = static_cast<std::int64_t>(hop.bytes);
    event.src = hop.sender;
    event.dst = hop.receiver;
    // Give each (pass, payload, way, step, sender) its own flow id.
    const std::int64_t kind = 4 * static_cast<int>(account_.pass()) +
                              2 * static_cast<int>(hop.payload) + static_cast<int>(slice.way);
    event.flow = 1 + (kind * n + hop.step) * n + hop.sender;
    lane_end = event.end_ns;
    request_.sink(rank, event);
  }
}

}  // namespace ringscope
