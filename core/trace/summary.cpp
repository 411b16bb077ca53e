#include "core/trace/summary.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/ranges.h"
#include "core/trace/scheme_names.h"

namespace ringscope {
namespace {

constexpr double kSecond = 1e9;  // nanoseconds

// [begin, end) in nanoseconds.
using TimeStretch = std::pair<std::int64_t, std::int64_t>;

// Return the same stretches of time, sorted and without overlaps.
std::vector<TimeStretch> merged(std::vector<TimeStretch> spans) {
  ranges::sort(spans);
  std::vector<TimeStretch> result;
  for (const TimeStretch& span : spans) {
    if (!result.empty() && span.first <= result.back().second)
      result.back().second = std::max(result.back().second, span.second);
    else
      result.push_back(span);
  }
  return result;
}

std::int64_t length_of(const std::vector<TimeStretch>& spans) {
  std::int64_t length = 0;
  for (const auto& [begin, end] : spans) length += end - begin;
  return length;
}

void add(Index& total, Index value) {
  if (__builtin_add_overflow(total, value, &total))
    throw InputError("recording: a rank's sum of pairs or bytes does not fit in 64 bits");
}

int forward_steps(const Recording& recording) {
  // Where blocks go only as far as they are needed, steps without work are not recorded.
  const RunInfo& info = recording.info;
  int steps = !info.hops.empty() && info.is_whole() ? info.world_size : 0;
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events)
      if (e.lane == Lane::compute && e.pass == Pass::forward) steps = std::max(steps, e.step + 1);
  return steps;
}

// Summarize one rank, and add the processor time of forward compute slices to `cpu_by_step`.
RankSummary summarize_rank(const std::vector<TraceEvent>& events, bool gradients_travel_along,
                           std::vector<double>& cpu_by_step) {
  RankSummary rank;
  rank.pairs_by_step.resize(cpu_by_step.size());
  std::set<std::tuple<Pass, int, Payload>> hops;
  for (const TraceEvent& e : events) {
    const double seconds = static_cast<double>(e.end_ns - e.begin_ns) / kSecond;
    switch (e.lane) {
      case Lane::compute: {
        const double cpu_seconds = static_cast<double>(e.cpu_ns) / kSecond;
        rank.compute_s += seconds;
        rank.compute_cpu_s += cpu_seconds;
        if (e.pass == Pass::backward) break;
        add(rank.pairs, e.pairs);
        rank.pairs_by_step[e.step] += e.pairs;
        cpu_by_step[e.step] += cpu_seconds;
        break;
      }
      case Lane::wait:
        rank.wait_s += seconds;
        break;
      case Lane::send:
        add(rank.bytes_sent, e.bytes);
        hops.emplace(e.pass, e.step, gradients_travel_along ? Payload::kv : e.payload);
        break;
      default:
        break;
    }
  }
  rank.hops = static_cast<int>(hops.size());
  rank.exposed_s = static_cast<double>(overlap_of(events).exposed) / kSecond;
  return rank;
}

}  // namespace

RankOverlap& RankOverlap::operator+=(const RankOverlap& other) {
  compute += other.compute;
  communication += other.communication;
  exposed += other.exposed;
  span += other.span;
  return *this;
}

RankOverlap overlap_of(const std::vector<TraceEvent>& events, std::int64_t span) {
  std::vector<TimeStretch> transfers, computing;
  for (const TraceEvent& e : events) {
    if (e.lane == Lane::compute) computing.emplace_back(e.begin_ns, e.end_ns);
    if (e.lane == Lane::send || e.lane == Lane::recv) transfers.emplace_back(e.begin_ns, e.end_ns);
  }
  computing = merged(std::move(computing));
  transfers = merged(std::move(transfers));
  const std::int64_t moving = length_of(transfers);
  RankOverlap overlap{length_of(computing), moving, moving, span};
  auto next = computing.begin();
  for (const auto& [begin, end] : transfers) {
    while (next != computing.end() && next->second <= begin) ++next;
    for (auto hit = next; hit != computing.end() && hit->first < end; ++hit)
      overlap.exposed -= std::min(hit->second, end) - std::max(hit->first, begin);
  }
  return overlap;
}

double imbalance(const std::vector<double>& work_by_rank) {
  const double total = std::accumulate(work_by_rank.begin(), work_by_rank.end(), 0.0);
  if (total == 0) return 1;
  return *ranges::max_element(work_by_rank) * static_cast<double>(work_by_rank.size()) / total;
}

double imbalance_of_steps(const std::vector<std::vector<double>>& work) {
  std::vector<double> by_rank;
  for (const auto& steps : work)
    by_rank.push_back(std::accumulate(steps.begin(), steps.end(), 0.0));
  return imbalance(by_rank);
}

double balance_ceiling(const std::vector<std::vector<double>>& work, bool shares_steps) {
  if (!shares_steps) return 1 / imbalance_of_steps(work);
  std::size_t steps = 0;
  for (const auto& rank : work) steps = std::max(steps, rank.size());
  double total = 0, slowest = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    double most = 0;
    for (const auto& rank : work) {
      if (step >= rank.size()) continue;
      total += rank[step];
      most = std::max(most, rank[step]);
    }
    slowest += most;
  }
  return slowest == 0 ? 1 : total / static_cast<double>(work.size()) / slowest;
}

RunSummary summarize(const Recording& recording) {
  RunSummary summary;
  const auto steps = static_cast<std::size_t>(forward_steps(recording));
  // In a ring a block and its gradient move on at the end of the same step. All-gather has two
  // rounds of hops: one gathers the blocks, the other scatters the gradients.
  const bool gradients_travel_along = !recording.info.scheme.starts_with(kGathersFirst);
  std::vector<std::vector<double>> pairs, cpu;
  for (const auto& events : recording.events) {
    std::vector<double>& cpu_by_step = cpu.emplace_back(steps);
    const RankSummary& rank =
        summary.ranks.emplace_back(summarize_rank(events, gradients_travel_along, cpu_by_step));
    pairs.emplace_back(rank.pairs_by_step.begin(), rank.pairs_by_step.end());
    summary.exposed_s = std::max(summary.exposed_s, rank.exposed_s);
  }
  summary.imbalance = imbalance_of_steps(pairs);
  const RunInfo& info = recording.info;
  const bool shares_steps = info.travel.value_or(Travel()).shares_steps(info.world_size);
  summary.balance_ceiling = balance_ceiling(pairs, shares_steps);
  summary.measured_imbalance = imbalance_of_steps(cpu);
  summary.measured_balance_ceiling = balance_ceiling(cpu, shares_steps);
  return summary;
}

}  // namespace ringscope
