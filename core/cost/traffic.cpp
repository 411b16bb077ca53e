#include "core/cost/traffic.h"

namespace ringscope {
namespace {

constexpr double kGradientBytes = 4;  // of a travelling dK or dV value: f32

double rows_of(const Job& job, int rank) {
  return static_cast<double>(job.partition_of_sequence().rows_of(rank).size());
}

// Ring and all-gather send every block once but one: the block that has come around to the rank
// after it, in the forward direction that is owner rank + 1's.
double kv_pass_bytes(const Job& job, int rank) {
  const double rows =
      static_cast<double>(job.shape.seqlen) - rows_of(job, (rank + 1) % job.world_size);
  return 2 * kv_values(job.shape, rows) * job.storage_bytes();
}

double gradient_bytes(const Job& job, int rank) {
  // Ring: N hops, every block's gradient once. All-gather: a rank's own gradient ends there.
  const double kept = job.scheme == JobScheme::ring ? 0 : rows_of(job, rank);
  return 2 * kv_values(job.shape, static_cast<double>(job.shape.seqlen) - kept) * kGradientBytes;
}

// Moves (N-1)/N of the heads of `rows` rows away, where all N shares are of `rows` rows.
double to_heads_bytes(const Job& job, double rows, double query_tensors, double kv_tensors) {
  return (query_tensors * query_values(job.shape, rows) + kv_tensors * kv_values(job.shape, rows)) *
         job.storage_bytes() * (job.world_size - 1) / job.world_size;
}

// Moves the rows that others hold, `rows` in all, of the rank's share of the heads.
double to_rows_bytes(const Job& job, double rows, double query_tensors, double kv_tensors) {
  return (query_tensors * query_values(job.shape, rows) + kv_tensors * kv_values(job.shape, rows)) *
         job.storage_bytes() / job.world_size;
}

Traffic ulysses_traffic(const Job& job, int rank) {
  const double mine = rows_of(job, rank), others = static_cast<double>(job.shape.seqlen) - mine;
  Traffic traffic;
  traffic.forward_bytes = to_heads_bytes(job, mine, 1, 2) + to_rows_bytes(job, others, 1, 0);
  if (job.backward)
    traffic.backward_bytes = to_heads_bytes(job, mine, 1, 0) + to_rows_bytes(job, others, 1, 2);
  traffic.hops = job.backward ? 4 : 2;
  return traffic;
}

}  // namespace

Traffic traffic_of(const Job& job, int rank) {
  if (job.world_size == 1) return {};
  if (job.scheme == JobScheme::ulysses) return ulysses_traffic(job, rank);
  const double n = job.world_size;
  Traffic traffic;
  traffic.forward_bytes = kv_pass_bytes(job, rank);
  traffic.hops = n - 1;
  if (!job.backward) return traffic;
  traffic.backward_bytes = kv_pass_bytes(job, rank) + gradient_bytes(job, rank);
  // In a ring a block and its gradient move on at the end of one step, the gradient at the last as
  // well; gathering and scattering are two rounds.
  traffic.hops += job.scheme == JobScheme::ring ? n : 2 * (n - 1);
  return traffic;
}

double kv_hop_bytes(const Job& job) {
  if (job.world_size == 1) return 0;
  return 2 * kv_values(job.shape, job.max_rows()) * job.storage_bytes();
}

double gradient_hop_bytes(const Job& job) {
  if (job.world_size == 1) return 0;
  return 2 * kv_values(job.shape, job.max_rows()) * kGradientBytes;
}

}  // namespace ringscope
