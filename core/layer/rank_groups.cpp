#include "core/layer/rank_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "core/base/shape.h"

namespace ringscope {
namespace {

Index product_of(const PerAxis& sizes) {
  Index product = 1;
  for (const Axis axis : kAllAxes) {
    if (sizes[axis] < 1)
      throw InputError(
          fmt::format("{}: {} given, at least 1 accepted", name_of(axis), sizes[axis]));
    product = checked_product(product, sizes[axis], "tensor x context x pipeline x data");
  }
  return product;
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

int RankGroups::rank_of(const PerAxis& indices) const {
  int rank = 0, distance = 1;
  for (const Axis axis : kAllAxes) {
    rank += indices[axis] * distance;
    distance *= sizes_[axis];
  }
  return rank;
}
// indices]

std::vector<int> RankGroups::members(int rank, const std::vector<Axis>& axes) const {
  const auto varies = [&](Axis axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
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
    if (std::all_of(axes.begin(), axes.end(), [&](Axis axis) { return own[axis] == 0; }))
      result.push_back(members(rank, axes));
  }
  return result;
}

GroupPlacement placement(const RankGroups& groups, const std::vector<Axis>& axes,
                         int ranks_a_node) {
  if (ranks_a_node < 1)
    throw InputError(fmt::format("ranks a node: {} given, at least 1 accepted", ranks_a_node));
  GroupPlacement result;
  for (const std::vector<int>& group : groups.groups(axes)) {
    std::set<int> nodes;
    for (const int rank : group) nodes.insert(rank / ranks_a_node);
    const int count = static_cast<int>(nodes.size());
    ++(count == 1 ? result.inside : result.crossing);
    result.most_nodes = std::max(result.most_nodes, count);
  }
  return result;
}

void check_tensor_heads(Index num_heads, Index num_heads_kv, int tensor_size) {
  if (tensor_size >= 1 && num_heads % tensor_size == 0 && num_heads_kv % tensor_size == 0) return;
  std::string accepted;
  const Index common = std::gcd(num_heads, num_heads_kv);
  std::set<Index> divisors;  // in pairs
  for (Index size = 1; size * size <= common; ++size)
    if (common % size == 0) divisors.insert({size, common / size});
  for (const Index size : divisors)
    accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", size);
  throw InputError(
      fmt::format("tensor: {} given for {} heads and {} kv heads, a divisor of both accepted: {}",
                  tensor_size, num_heads, num_heads_kv, accepted));
}

}  // namespace ringscope
