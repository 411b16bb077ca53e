#include "core/sim/account.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/cost/amounts.h"
#include "core/ring/loop_counts.h"

namespace ringscope {
namespace {

constexpr int kLanes = 4;

void check_rate(double value, const char* name) {
  if (!(value > 0 && std::isfinite(value)))
    throw InputError(fmt::format("{}: {} given, a number above 0 accepted", name, value));
}

void check_share(double value, const char* name) {
  if (!(value >= 0 && std::isfinite(value)))
    throw InputError(fmt::format("{}: {} given, a number of at least 0 accepted", name, value));
}

template <class T>
void check_length(const std::vector<T>& values, int world_size, const char* name) {
  if (!values.empty() && values.size() != static_cast<std::size_t>(world_size))
    throw InputError(fmt::format("{}: of {} ranks given, of none or all {} accepted", name,
                                 values.size(), world_size));
}

void check_paths(const std::vector<Path>& paths, int world_size, const char* name) {
  check_length(paths, world_size, name);
  for (const Path& path : paths) {
    check_rate(path.bytes_per_s, name);
    check_share(path.latency_s, name);
  }
}

void check(const SimulationRequest& request, const Work& work, const Machine& machine) {
  const Problem& job = request.job;
  if (work.world_size() != job.world_size || machine.world_size != job.world_size)
    throw InputError(
        fmt::format("world-size: a job of {} ranks, work of {} and a machine of {} "
                    "given, the same accepted",
                    job.world_size, work.world_size(), machine.world_size));
  if (job.kv_buffers < 2)
    throw InputError(fmt::format("kv-buffers: {} given, at least 2 accepted", job.kv_buffers));
  check_rate(machine.rates.forward_flops, "forward rate");
  if (job.backward) check_rate(machine.rates.backward_flops, "backward rate");
  check_rate(machine.rates.bytes_per_s, "bandwidth");
  check_share(machine.rates.latency_s, "latency");
  check_share(machine.step_s, "cost of a step");
  check_share(machine.jitter, "jitter");
  check_share(machine.hop_jitter, "jitter of hops");
  check_length(machine.speed, job.world_size, "speed");
  for (const double speed : machine.speed) check_rate(speed, "speed");
  check_paths(machine.to_next, job.world_size, "link to the next rank");
  check_paths(machine.to_next_here, job.world_size, "link to the next rank of the node");
  check_paths(machine.to_next_node, job.world_size, "link to the next node");
  check_paths(machine.to_all, job.world_size, "links to all ranks");
  check_length(request.recorded, job.world_size, "recorded ranks");
}

}  // namespace

std::int64_t to_ns(double seconds) { return std::llround(std::clamp(seconds * 1e9, 0.0, 9.2e18)); }

Account::Account(const SimulationRequest& request, const Work& work, const Machine& machine)
    : request_(request),
      job_(request.job),
      work_(work),
      machine_(machine),
      world_size_(request.job.world_size),
      kv_bytes_a_row_(2 * kv_values(job_.shape, 1) * job_.storage_bytes()),
      gradient_bytes_a_row_(2 * kv_values(job_.shape, 1) * 4),
      has_events_(!request.recorded.empty() && request.sink != nullptr),
      numbers_hops_(!is_plain(job_) && job_.scheme != Scheme::two_level) {
  check(request, work, machine);
  result.ranks.resize(world_size_);
  if (has_events_) lane_ends_ns_.assign(static_cast<std::size_t>(world_size_) * kLanes, 0);
  begin_pass(Pass::forward, 0);
}

void Account::begin_pass(Pass pass, double origin_s) {
  pass_ = pass;
  origin_s_ = origin_s;
  flops_a_pair_ = flops_of_pairs(job_.shape, 1, pass);
  flops_a_second_ = machine_.rates.flops(pass);
}

void Account::give(int rank, TraceEvent& event, TimeSpan span) {
  std::int64_t& lane_end =
      lane_ends_ns_[static_cast<std::size_t>(rank) * kLanes + static_cast<std::size_t>(event.lane)];
  event.pass = pass_;
  event.begin_ns = std::max(to_ns(origin_s_ + span.begin), lane_end);
  event.end_ns = std::max(to_ns(origin_s_ + span.end), event.begin_ns);
  lane_end = event.end_ns;
  if (std::abs(event.moved_ns - (event.end_ns - event.begin_ns)) <= 1) event.moved_ns = 0;
  if (event.lane == Lane::compute) {
    const std::int64_t all = event.end_ns - event.begin_ns;
    event.cpu_ns = event.cpu_ns < 0 ? all : std::min(event.cpu_ns, all);
  }
  request_.sink(rank, event);
}

void Account::record_compute(int rank, int step, int owner, double begin,
                             const Computation& computation) {
  TraceEvent event{.lane = Lane::compute, .step = step, .kv_owner = owner};
  event.pairs = static_cast<std::int64_t>(computation.pairs);
  event.flops = static_cast<std::int64_t>(flops_of_pairs(job_.shape, computation.pairs, pass_));
  event.cpu_ns = computation.cpu_seconds < 0 ? -1 : to_ns(computation.cpu_seconds);
  give(rank, event, {begin, begin + computation.seconds});
}

void Account::record_wait(int rank, int step, int owner, Payload payload, TimeSpan span,
                          int waiting_for) {
  TraceEvent event{.lane = Lane::wait, .payload = payload, .step = step, .kv_owner = owner};
  event.waiting_for = waiting_for;
  give(rank, event, span);
}

void Account::record_hop(Hop hop, TimeSpan span) {
  if (numbers_hops_) hop.number = ++moved_hops_;
  const bool at_once = is_plain(job_) || (job_.scheme == Scheme::ulysses && !is_followed(job_));
  if (!at_once) hop.seconds = span.seconds();
  for (const Lane lane : {Lane::send, Lane::recv}) {
    const int rank = lane == Lane::send ? hop.sender : hop.receiver;
    if (!is_recorded(rank)) continue;
    if (at_once) {
      give_hop(rank, lane, hop, span);
      continue;
    }
    auto& of_ranks = slices_[lane == Lane::send ? 0 : 1][hop.way == Way::ring ? 0 : 1];
    of_ranks.resize(result.ranks.size());
    of_ranks[rank].push_back({span, hop});
  }
}

void Account::give_hop(int rank, Lane lane, const Hop& hop, TimeSpan span) {
  // Give each (way, pass, payload, step, sender) its own flow id.
  const std::int64_t n = world_size_;
  const std::int64_t kind =
      4 * static_cast<int>(hop.way) + 2 * static_cast<int>(pass_) + static_cast<int>(hop.payload);
  TraceEvent event{.lane = lane, .payload = hop.payload, .step = hop.step, .kv_owner = hop.owner};
  event.bytes = static_cast<std::int64_t>(hop.bytes);
  event.src = hop.sender;
  event.dst = hop.receiver;
  event.moved_ns = to_ns(hop.seconds);
  event.flow = hop.number != 0 ? hop.number : 1 + (kind * n + hop.step) * n + hop.sender;
  give(rank, event, span);
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

void Account::end_pass() {
  for (const Lane lane : {Lane::send, Lane::recv}) {
    auto& [inside, between] = slices_[lane == Lane::send ? 0 : 1];
    inside.resize(result.ranks.size());
    between.resize(result.ranks.size());
    for (std::size_t rank = 0; rank < inside.size(); ++rank) {
      const auto is_earlier = [](const Slice& a, const Slice& b) {
        return std::pair(a.span.begin, a.span.end) < std::pair(b.span.begin, b.span.end);
      };
      // Messages from several ranks come in no order.
      std::stable_sort(inside[rank].begin(), inside[rank].end(), is_earlier);
      std::stable_sort(between[rank].begin(), between[rank].end(), is_earlier);
      std::size_t next = 0;
      for (Slice& slice : between[rank])
        slice.span = longest_free_part(slice.span, inside[rank], next);
      std::vector<Slice> all = std::exchange(inside[rank], {});
      const auto here = static_cast<std::ptrdiff_t>(all.size());
      all.insert(all.end(), between[rank].begin(), between[rank].end());
      between[rank].clear();
      std::inplace_merge(all.begin(), all.begin() + here, all.end(), is_earlier);
      for (const Slice& slice : all) give_hop(static_cast<int>(rank), lane, slice.hop, slice.span);
    }
  }
}

double covered(TimeSpan gap, std::vector<TimeSpan>& spans) {
  std::sort(spans.begin(), spans.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  double seconds = 0, until = gap.begin;
  for (const TimeSpan& span : spans) {
    const double begin = std::max(span.begin, until), end = std::min(span.end, gap.end);
    if (end <= begin) continue;
    seconds += end - begin;
    until = end;
  }
  return seconds;
}

}  // namespace ringscope
