#include "core/cost/layer_time.h"

#include <algorithm>

#include "core/cost/overlap.h"
#include "core/cost/traffic.h"
#include "core/cost/two_level_time.h"

namespace ringscope {
namespace {

struct HopTimes {
  double kv = 0;
  double gradient = 0;  // 0 in the forward pass
};

HopTimes hop_times(const Job& job, const Rates& rates, Pass pass) {
  if (job.world_size == 1) return {};
  const double kv = kv_hop_bytes(job) / rates.bytes_per_s + rates.latency_s;
  if (pass == Pass::forward) return {kv, 0};
  return {kv, gradient_hop_bytes(job) / rates.bytes_per_s + rates.latency_s};
}

PassTime ring_pass(const Job& job, const Balance& balance, const Rates& rates, Pass pass) {
  const HopTimes hops = hop_times(job, rates, pass);
  PassTime time;
  double slowest = 0;
  bool is_first = true;
  for (const StepWork& step : balance.steps) {
    const double work = compute_seconds(job, rates, pass, step.slowest);
    const double moving = (step.has_hop ? hops.kv : 0) + (is_first ? 0 : hops.gradient);
    slowest += step.steps * work;
    time.exposed += step.steps * std::max(0.0, moving - work);
    time.wall += step.steps * std::max(work, moving);
    is_first = false;
  }
  time.exposed += hops.gradient;
  time.wall += hops.gradient;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  time.imbalance = std::max(0.0, slowest - time.compute);  // a sum of parts may round down
  return time;
}

PassTime allgather_pass(const Job& job, const Balance& balance, const Rates& rates, Pass pass) {
  const HopTimes hops = hop_times(job, rates, pass);
  PassTime time;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  const double slowest = compute_seconds(job, rates, pass, balance.slowest_rank);
  time.imbalance = slowest - time.compute;
  time.exposed = (job.world_size - 1) * (hops.kv + hops.gradient);
  if (balance.sampled) {  // not exact anyway, and perhaps of very many ranks
    time.wall = time.exposed + slowest;
    return time;
  }
  for (int hop = 0; hop + 1 < job.world_size; ++hop) time.wall += hops.kv;
  time.wall += slowest;
  for (int hop = 0; hop + 1 < job.world_size; ++hop) time.wall += hops.gradient;
  return time;
}

PassTime ulysses_pass(const Job& job, const Balance& balance, const Rates& rates, Pass pass) {
  // What a rank sends is linear in its rows, which are most on the first rank or on the last.
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

PassTime pass_time(const Job& job, const Balance& balance, const Rates& rates, Pass pass) {
  switch (job.scheme) {
    case JobScheme::allgather:
      return allgather_pass(job, balance, rates, pass);
    case JobScheme::ulysses:
      return ulysses_pass(job, balance, rates, pass);
    default:
      return ring_pass(job, balance, rates, pass);
  }
}

}  // namespace

LayerTime layer_time(const Job& job, const Balance& balance, const Rates& rates) {
  if (job.scheme == JobScheme::two_level)
    return two_level_time(job, balance, rates, {"", rates.bytes_per_s, rates.latency_s});
  LayerTime time;
  time.forward = pass_time(job, balance, rates, Pass::forward);
  if (job.backward) time.backward = pass_time(job, balance, rates, Pass::backward);
  return time;
}

}  // namespace ringscope
