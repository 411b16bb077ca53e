#include "core/layer/group_traffic.h"

#include <fmt/format.h>

#include <utility>

namespace ringscope {
namespace {

constexpr double kGradientSumBytes = 4;  // sums of gradients are f32, whatever is stored

// Bytes that a rank sends in the sum of `bytes` over n ranks (ring_all_reduce.h).
double sum_bytes(double bytes, double n) { return 2 * (n - 1) / n * bytes; }

void check(const GroupJob& job) {
  validate(job.shape);
  for (const auto& [name, value] :
       {std::pair{"width", job.width}, {"layers", job.layers}, {"value bytes", job.value_bytes}})
    if (value < 1) throw InputError(fmt::format("{}: {} given, at least 1 accepted", name, value));
  for (const Axis axis : kAllAxes)
    if (job.sizes[axis] < 1)
      throw InputError(
          fmt::format("{}: {} given, at least 1 accepted", name_of(axis), job.sizes[axis]));
  check_tensor_heads(job.shape.num_heads, job.shape.num_heads_kv, job.sizes[Axis::tensor]);
  if (job.sizes[Axis::pipeline] > job.layers)
    throw InputError(fmt::format("pipeline: {} given for {} layers, at most one a layer accepted",
                                 job.sizes[Axis::pipeline], job.layers));
}

// [batch, rows, heads_kv of a rank, head_dim], K and V.
double block_values(const GroupJob& job) {
  const AttentionShape& shape = job.shape;
  return 2.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.seqlen) /
         job.sizes[Axis::context] * static_cast<double>(shape.num_heads_kv) /
         job.sizes[Axis::tensor] * static_cast<double>(shape.head_dim);
}

}  // namespace

GroupTraffic group_traffic(const GroupJob& job) {
  check(job);
  const AttentionShape& shape = job.shape;
  const double tp = job.sizes[Axis::tensor], cp = job.sizes[Axis::context];
  const double pp = job.sizes[Axis::pipeline], dp = job.sizes[Axis::data];
  const double layers = static_cast<double>(job.layers) / pp;
  const double width = static_cast<double>(job.width);
  const double heads = static_cast<double>(shape.num_heads + shape.num_heads_kv);
  const double weights = layers * 2 * width * heads * static_cast<double>(shape.head_dim) / tp;
  const double rows_bytes = static_cast<double>(shape.batch) * static_cast<double>(shape.seqlen) /
                            cp * width * static_cast<double>(job.value_bytes);
  GroupTraffic traffic;
  if (tp > 1) traffic.tensor = {2 * layers, 2 * layers * sum_bytes(rows_bytes, tp)};
  if (cp > 1)
    traffic.context = {(3 * cp - 2) * layers,
                       layers * (2 * (cp - 1) * ring_block_bytes(job) +
                                 cp * block_values(job) * kGradientSumBytes)};
  const double neighbours = 2 * (pp - 1) / pp;  // stages beside a stage
  traffic.pipeline = {neighbours, neighbours * rows_bytes};
  if (cp * dp > 1) traffic.gradients = {1, sum_bytes(weights * kGradientSumBytes, cp * dp)};
  return traffic;
}

double ring_block_bytes(const GroupJob& job) {
  return block_values(job) * static_cast<double>(job.value_bytes);
}

}  // namespace ringscope
