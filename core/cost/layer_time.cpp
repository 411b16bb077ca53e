#include "core/cost/layer_time.h"

#include <algorithm>

#include "core/cost/overlap.h"
#include "core/cost/traffic.h"

namespace ringscope {
namespace {

struct HopTimes {
  double kv = 0;
  double gradient = 0;  // 0 in the forward pass
};

HopTimes hop_times(const Job& job, const Rates& rates, Pass pass) {
  if (job.world_size == 1) return {};
  const double kv = hop_seconds(job, rates, Pass::forward, job.max_rows());
  if (pass == Pass::forward) return {kv, 0};
  return {kv, hop_seconds(job, rates, Pass::backward, job.max_rows()) - kv};
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
    is_first = false;
  }
  time.exposed += hops.gradient;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  time.imbalance = std::max(0.0, slowest - time.compute);  // a sum of parts may round down
  return time;
}

PassTime allgather_pass(const Job& job, const Balance& balance, const Rates& rates, Pass pass) {
  const HopTimes hops = hop_times(job, rates, pass);
  PassTime time;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  time.imbalance = compute_seconds(job, rates, pass, balance.slowest_rank) - time.compute;
  time.exposed = (job.world_size - 1) * (hops.kv + hops.gradient);
  return time;
}

PassTime ulysses_pass(const Job& job, const Balance& balance, const Rates& rates, Pass pass) {
  // What a rank sends is linear in its rows, which are most on the first rank or on the last.
  double bytes = 0;
  for (const int rank : {0, job.world_size - 1}) {
    const Traffic traffic = traffic_of(job, rank);
    bytes = std::max(bytes, pass == Pass::forward ? traffic.forward_bytes : traffic.backward_bytes);
  }
  PassTime time;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  time.exposed = bytes / rates.bytes_per_s + 2.0 * (job.world_size - 1) * rates.latency_s;
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
  LayerTime time;
  time.forward = pass_time(job, balance, rates, Pass::forward);
  if (job.backward) time.backward = pass_time(job, balance, rates, Pass::backward);
  return time;
}

}  // namespace ringscope
