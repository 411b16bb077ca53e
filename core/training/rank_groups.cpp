#include "core/training/rank_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/error.h"

namespace ringscope {

namespace {

Index product_of(const PerAxis& sizes) {
  Index product = 1;
  for (const Axis axis : kAllAxes) {
    require_between(std::string(name_of(axis)), sizes[axis], 1);
    product = checked_product(product, sizes[axis], "tensor x context x pipeline x data");
  }
  return product;
}

constexpr double kGradientSumBytes = 4;  // gradients are summed in f32, whatever is stored

// Return the bytes that a rank sends to add up `bytes` over n ranks (replica.h).
double sum_bytes(double bytes, double n) { return 2 * (n - 1) / n * bytes; }

void check(const GroupJob& job) {
  validate(job.shape);
  require_between("width", job.width, 1);
  require_between("layers", job.layers, 1);
  require_between("value bytes", job.value_bytes, 1);
  for (const Axis axis : kAllAxes) require_between(std::string(name_of(axis)), job.sizes[axis], 1);
  check_tensor_split(job.shape.num_heads, job.shape.num_heads_kv, job.sizes[Axis::tensor]);
  if (job.sizes[Axis::pipeline] > job.layers)
    throw InputError(fmt::format("pipeline: {} given for {} layers, at most one a layer accepted",
                                 job.sizes[Axis::pipeline], job.layers));
}

// Return the number of values of K and V together:
// [batch, rows, heads_kv of a rank, head_dim] each.
double block_values(const GroupJob& job) {
  const AttentionShape& shape = job.shape;
  return 2.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.seqlen) /
         job.sizes[Axis::context] * static_cast<double>(shape.num_heads_kv) /
         job.sizes[Axis::tensor] * static_cast<double>(shape.head_dim);
}

}  // namespace

RankGroups::RankGroups(const PerAxis& sizes, int world_size)
    : sizes_(sizes), world_size_(world_size) {
  const Index product = product_of(sizes);
  if (product != world_size)
    throw InputError(
        fmt::format("tensor x context x pipeline x data: {} x {} x {} x {} = {} given for a "
                    "world_size of {}; sizes that multiply to it accepted",
                    sizes[Axis::tensor], sizes[Axis::context], sizes[Axis::pipeline],
                    sizes[Axis::data], product, world_size));
}

// [indices
PerAxis RankGroups::indices(int rank) const {
  PerAxis result;
  for (const Axis axis : kAllAxes) {
    result[axis] = rank % sizes_[axis];
    rank /= sizes_[axis];
  }
  return result;
}
// indices]

std::vector<int> RankGroups::members(int rank, const std::vector<Axis>& axes) const {
  const auto varies = [&](Axis axis) { return std::ranges::find(axes, axis) != axes.end(); };
  std::vector<int> result{0};
  int distance = 1;
  const PerAxis own = indices(rank);
  for (const Axis axis : kAllAxes) {
    const std::vector<int> inner = result;
    const int first = varies(axis) ? 0 : own[axis], last = varies(axis) ? sizes_[axis] : first + 1;
    result.clear();
    for (int i = first; i < last; ++i)
      for (const int so_far : inner) result.push_back(so_far + i * distance);
    distance *= sizes_[axis];
  }
  return result;
}

std::vector<std::vector<int>> RankGroups::groups(const std::vector<Axis>& axes) const {
  std::vector<std::vector<int>> result;
  for (int rank = 0; rank < world_size_; ++rank) {
    const PerAxis own = indices(rank);
    if (std::ranges::all_of(axes, [&](Axis axis) { return own[axis] == 0; }))
      result.push_back(members(rank, axes));
  }
  return result;
}

GroupPlacement placement(const RankGroups& groups, const std::vector<Axis>& axes,
                         int ranks_a_node) {
  require_between("ranks a node", ranks_a_node, 1);
  GroupPlacement result;
  for (const std::vector<int>& group : groups.groups(axes)) {
    std::set<int> nodes;
    for (const int rank : group) nodes.insert(rank / ranks_a_node);
    ++(nodes.size() == 1 ? result.inside : result.crossing);
  }
  return result;
}

void check_tensor_split(Index num_heads, Index num_heads_kv, int tensor_size, Index hidden) {
  const Index divisible = std::gcd(std::gcd(num_heads, num_heads_kv), hidden);
  if (tensor_size >= 1 && divisible % tensor_size == 0) return;
  throw InputError(
      fmt::format("tensor: {} given for {} heads and {} kv heads{}; accepted: a divisor of {}",
                  tensor_size, num_heads, num_heads_kv,
                  hidden == 0 ? "" : fmt::format(" and an MLP of {}", hidden), divisible));
}

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
  const double neighbours = 2 * (pp - 1) / pp;  // number of stages beside a stage, on average
  traffic.pipeline = {neighbours, neighbours * rows_bytes};
  if (cp * dp > 1) traffic.gradients = {1, sum_bytes(weights * kGradientSumBytes, cp * dp)};
  return traffic;
}

double ring_block_bytes(const GroupJob& job) {
  return block_values(job) * static_cast<double>(job.value_bytes);
}

}  // namespace ringscope
