#include "core/cost/overlap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost/flops.h"

namespace ringscope {
namespace {

double bytes_a_row(const Job& job, Pass pass) {
  const double forward = 2 * kv_values(job.shape, 1) * job.storage_bytes();
  return pass == Pass::forward ? forward : forward + 2 * kv_values(job.shape, 1) * 4;
}

double latency_seconds(const Rates& rates, Pass pass) {
  return (pass == Pass::forward ? 1 : 2) * rates.latency_s;
}

}  // namespace

double hop_seconds(const Job& job, const Rates& rates, Pass pass, double rows) {
  return bytes_a_row(job, pass) * rows / rates.bytes_per_s + latency_seconds(rates, pass);
}

double all_to_all_seconds(double bytes, int world_size, double bytes_per_s, double latency_s) {
  return world_size == 1 ? 0 : bytes / bytes_per_s + (world_size - 1) * latency_s;
}

double compute_seconds(const Job& job, const Rates& rates, Pass pass, double pairs) {
  return flops_of_pairs(job.shape, pairs, pass) / rates.flops(pass);
}

double least_share(const Job& job, const Balance& balance) {
  double least = job.max_rows() * job.max_rows();
  const double whole = least;
  for (const StepWork& step : balance.steps)
    if (step.has_hop) least = std::min(least, step.slowest);
  return least / whole;
}

double threshold_rows(const Job& job, const Rates& rates, Pass pass, double share) {
  if (share <= 0) return std::numeric_limits<double>::infinity();
  // The positive root of a c^2 - b c - latency.
  const double a = compute_seconds(job, rates, pass, share);
  const double b = bytes_a_row(job, pass) / rates.bytes_per_s;
  return (b + std::sqrt(b * b + 4 * a * latency_seconds(rates, pass))) / (2 * a);
}

}  // namespace ringscope
