#include "core/sim/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/cost/amounts.h"

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
      has_events_(!request.recorded.empty() && request.sink != nullptr) {
  check(request, work, machine);
  result.ranks.resize(static_cast<std::size_t>(world_size_));
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
  if (event.lane == Lane::compute) event.cpu_ns = event.end_ns - event.begin_ns;
  request_.sink(rank, event);
}

void Account::record_compute(int rank, int step, int owner, TimeSpan span, double pairs) {
  TraceEvent event{.lane = Lane::compute, .step = step, .kv_owner = owner};
  event.pairs = static_cast<std::int64_t>(pairs);
  event.flops = static_cast<std::int64_t>(flops_of_pairs(job_.shape, pairs, pass_));
  give(rank, event, span);
}

void Account::record_wait(int rank, int step, int owner, Payload payload, TimeSpan span,
                          int waiting_for) {
  TraceEvent event{.lane = Lane::wait, .payload = payload, .step = step, .kv_owner = owner};
  event.waiting_for = waiting_for;
  give(rank, event, span);
}

void Account::record_hop(const Hop& hop, TimeSpan span) {
  // Give each (pass, payload, step, sender) its own flow id.
  const std::int64_t n = world_size_;
  const std::int64_t kind = 2 * static_cast<int>(pass_) + static_cast<int>(hop.payload);
  const auto slice = [&](int rank, Lane lane, int owner) {
    if (!is_recorded(rank)) return;
    TraceEvent event{.lane = lane, .payload = hop.payload, .step = hop.step, .kv_owner = owner};
    event.bytes = static_cast<std::int64_t>(hop.bytes);
    event.src = hop.sender;
    event.dst = hop.receiver;
    event.flow = 1 + (kind * n + hop.step) * n + hop.sender;
    give(rank, event, span);
  };
  slice(hop.sender, Lane::send, hop.owner);
  slice(hop.receiver, Lane::recv, hop.owner);
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

double covered(TimeSpan gap, TimeSpan a, TimeSpan b) {
  if (b.begin < a.begin) std::swap(a, b);
  const double a_begin = std::max(a.begin, gap.begin), a_end = std::min(a.end, gap.end);
  const double b_begin = std::max({b.begin, gap.begin, a_end}), b_end = std::min(b.end, gap.end);
  return std::max(0.0, a_end - a_begin) + std::max(0.0, b_end - b_begin);
}

}  // namespace ringscope
