#include "core/tools/cost/time.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/tools/cost/amounts.h"

namespace ringscope {

namespace {

double bytes_a_row(const Problem& job, Pass pass) {
  const double values = block_values(job.shape, 1.0);
  return values * job.storage_bytes() + (pass == Pass::forward ? 0 : values * 4);
}

double latency_seconds(const Rates& rates, Pass pass) {
  return (pass == Pass::forward ? 1 : 2) * rates.latency_s;
}

}  // namespace

CallCosts calibrated_costs(const Gpu& gpu) {
  if (gpu.call_s && gpu.merge_s) return {*gpu.call_s, *gpu.merge_s};
  throw InputError(
      fmt::format("gpu {} has no call_us and merge_ps; accepted: one that has", gpu.name));
}

double hop_seconds(const Problem& job, const Rates& rates, Pass pass, double rows) {
  return bytes_a_row(job, pass) * rows / rates.bytes_per_s + latency_seconds(rates, pass);
}

double all_to_all_seconds(double bytes, int world_size, double bytes_per_s, double latency_s) {
  return world_size == 1 ? 0 : bytes / bytes_per_s + (world_size - 1) * latency_s;
}

double compute_seconds(const Problem& job, const Rates& rates, Pass pass, double pairs) {
  return flops_of_pairs(job.shape, pairs, pass) / rates.flops(pass);
}

double least_share(const Problem& job, const Balance& balance) {
  double least = job.max_query_rows() * job.max_rows();
  const double whole = least;
  for (const StepWork& step : balance.steps)
    if (step.has_hop) least = std::min(least, step.slowest);
  return least / whole;
}

double threshold_rows(const Problem& job, const Rates& rates, Pass pass, double share) {
  if (share <= 0) return std::numeric_limits<double>::infinity();
  // Return the positive root of a c^2 - b c - latency.
  const double a = compute_seconds(job, rates, pass, share);
  const double b = bytes_a_row(job, pass) / rates.bytes_per_s;
  return (b + std::sqrt(b * b + 4 * a * latency_seconds(rates, pass))) / (2 * a);
}

namespace {

struct HopTimes {
  double kv = 0;
  double gradient = 0;  // 0 in the forward pass
};

HopTimes hop_times(const Problem& job, const Rates& rates, Pass pass) {
  if (job.world_size == 1) return {};
  const auto seconds = [&](double bytes) { return rates.latency_s + bytes / rates.bytes_per_s; };
  return {seconds(kv_hop_bytes(job)), pass == Pass::forward ? 0 : seconds(gradient_hop_bytes(job))};
}

PassTime ring_pass(const Problem& job, const Balance& balance, const Rates& rates, Pass pass) {
  const HopTimes hops = hop_times(job, rates, pass);
  PassTime time;
  double slowest = 0;
  bool is_first = true;
  for (const StepWork& step : balance.steps) {
    const double work = compute_seconds(job, rates, pass, step.slowest);
    const double moving = (step.has_hop ? hops.kv : 0) + (is_first ? 0 : hops.gradient);
    slowest += work;
    time.exposed += std::max(0.0, moving - work);
    time.wall += std::max(work, moving);
    is_first = false;
  }
  time.exposed += hops.gradient;
  time.wall += hops.gradient;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  time.imbalance = std::max(0.0, slowest - time.compute);  // a sum of parts may round down
  return time;
}

PassTime allgather_pass(const Problem& job, const Balance& balance, const Rates& rates, Pass pass) {
  const HopTimes hops = hop_times(job, rates, pass);
  PassTime time;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  const double slowest = compute_seconds(job, rates, pass, balance.slowest_rank);
  time.imbalance = slowest - time.compute;
  time.exposed = (job.world_size - 1) * (hops.kv + hops.gradient);
  for (int hop = 0; hop + 1 < job.world_size; ++hop) time.wall += hops.kv;
  time.wall += slowest;
  for (int hop = 0; hop + 1 < job.world_size; ++hop) time.wall += hops.gradient;
  return time;
}

PassTime ulysses_pass(const Problem& job, const Balance& balance, const Rates& rates, Pass pass) {
  // The bytes sent are linear in a rank's rows, which are most on the first or the last rank.
  AllToAlls most;
  for (const int rank : {0, job.world_size - 1}) {
    const AllToAlls mine = all_to_alls_of(job, pass, rank);
    most = {std::max(most.there_bytes, mine.there_bytes),
            std::max(most.back_bytes, mine.back_bytes)};
  }
  const auto seconds = [&](double bytes) {
    return all_to_all_seconds(bytes, job.world_size, rates.bytes_per_s, rates.latency_s);
  };
  const double there = seconds(most.there_bytes), back = seconds(most.back_bytes);
  PassTime time;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  time.exposed = there + back;
  time.wall = there + time.compute + back;
  return time;
}

PassTime pass_time(const Problem& job, const Balance& balance, const Rates& rates, Pass pass) {
  switch (job.scheme->course) {
    case Course::gathers:
      return allgather_pass(job, balance, rates, pass);
    case Course::heads:
      return ulysses_pass(job, balance, rates, pass);
    default:
      return ring_pass(job, balance, rates, pass);
  }
}

}  // namespace

LayerTime layer_time(const Problem& job, const Balance& balance, const Rates& rates) {
  LayerTime time;
  time.forward = pass_time(job, balance, rates, Pass::forward);
  if (job.backward) time.backward = pass_time(job, balance, rates, Pass::backward);
  return time;
}

}  // namespace ringscope
