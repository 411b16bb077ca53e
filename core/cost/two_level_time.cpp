#include "core/cost/two_level_time.h"

#include <algorithm>

#include "core/cost/overlap.h"
#include "core/cost/traffic.h"

namespace ringscope {
namespace {

struct TwoLevelHopTimes {
  double kv = 0;
  double gradient = 0;  // 0 in the forward pass
};

// Nothing moves where there is nobody to send to.
TwoLevelHopTimes hop_times(const Job& job, Pass pass, int ranks, double bytes_per_s,
                           double latency_s) {
  if (ranks == 1) return {};
  const auto seconds = [&](double bytes) { return latency_s + bytes / bytes_per_s; };
  return {seconds(kv_hop_bytes(job)), pass == Pass::forward ? 0 : seconds(gradient_hop_bytes(job))};
}

PassTime pass_time(const Job& job, const Balance& balance, const Rates& rates, const Link& link,
                   Pass pass) {
  const int places = job.ranks_a_node();
  const TwoLevelHopTimes here = hop_times(job, pass, places, rates.bytes_per_s, rates.latency_s);
  const TwoLevelHopTimes between =
      hop_times(job, pass, job.nodes, link.bytes_per_s, link.latency_s);
  PassTime time;
  double slowest = 0;
  auto step = balance.steps.begin();
  for (int outer = 0; outer < job.nodes; ++outer) {
    double turn = 0;
    for (int inner = 0; inner < places; ++inner, ++step) {
      const double work = compute_seconds(job, rates, pass, step->slowest);
      const double moving = (inner < places - 1 ? here.kv : 0) + (inner > 0 ? here.gradient : 0);
      slowest += work;
      turn += std::max(work, moving);
    }
    const double moving =
        (outer < job.nodes - 1 ? between.kv : 0) + (outer > 0 ? between.gradient : 0);
    time.wall += std::max(turn, moving);
  }
  time.wall += between.gradient;
  time.wall += here.gradient;
  time.compute = compute_seconds(job, rates, pass, balance.mean_rank);
  time.imbalance = std::max(0.0, slowest - time.compute);  // sums of parts may round down
  time.exposed = std::max(0.0, time.wall - slowest);
  return time;
}

}  // namespace

LayerTime two_level_time(const Job& job, const Balance& balance, const Rates& rates,
                         const Link& between) {
  LayerTime time;
  time.forward = pass_time(job, balance, rates, between, Pass::forward);
  if (job.backward) time.backward = pass_time(job, balance, rates, between, Pass::backward);
  return time;
}

}  // namespace ringscope
