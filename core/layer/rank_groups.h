// Who works together when a world of ranks is split in four ways at once:
//
//   TP  tensor     heads (columns of weights)      a group adds up activations, layer by layer
//   CP  context    the sequence                    a ring of attention; adds up gradients
//   PP  pipeline   layers                          passes rows on from stage to stage
//   DP  data       batches                         adds up gradients
//
//   rank = ((dp * PP + pp) * CP + cp) * TP + tp
//
// (S1, part two, 13; claim C53.) Ranks that differ along one axis only are a group of that axis:
// they hold the same of everything else. The innermost axis has consecutive ranks, so that those
// who talk most are neighbours on a node. All of it follows from the four sizes, so nothing has to
// be sent for every rank to know every group.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

enum class Axis { tensor, context, pipeline, data };  // from the innermost out

inline constexpr Axis kAllAxes[] = {Axis::tensor, Axis::context, Axis::pipeline, Axis::data};

constexpr std::string_view name_of(Axis axis) {
  constexpr std::string_view kNames[] = {"tensor", "context", "pipeline", "data"};
  return kNames[static_cast<int>(axis)];
}

// A number for each axis, in the order of Axis: how many ranks it has, or a rank's index along it.
struct PerAxis {
  std::array<int, 4> numbers{};

  int& operator[](Axis axis) { return numbers[static_cast<std::size_t>(axis)]; }
  int operator[](Axis axis) const { return numbers[static_cast<std::size_t>(axis)]; }
  bool operator==(const PerAxis&) const = default;
};

class RankGroups {
 public:
  // Throws InputError unless every size is at least 1 and they multiply to world_size.
  RankGroups(const PerAxis& sizes, int world_size);

  int world_size() const { return world_size_; }
  const PerAxis& sizes() const { return sizes_; }

  // rank in [0, world_size); index along an axis in [0, its size).
  PerAxis indices(int rank) const;
  int rank_of(const PerAxis& indices) const;

  // The group of `rank`, ascending; the index of a rank along the axis is its place in it.
  std::vector<int> members(int rank, Axis axis) const { return members(rank, std::vector{axis}); }
  // Ranks that differ from `rank` along any of `axes` and along no other.
  std::vector<int> members(int rank, const std::vector<Axis>& axes) const;
  // All groups of an axis, or of several, by their first ranks: each rank of the world is in exactly one.
  std::vector<std::vector<int>> groups(Axis axis) const { return groups(std::vector{axis}); }
  std::vector<std::vector<int>> groups(const std::vector<Axis>& axes) const;

 private:
  PerAxis sizes_;
  int world_size_;
};

// Ranks that differ along these hold the same weights, so that a step's gradients are added up over
// them. (Adding up over context, and what that gives over data, does as well.)
inline const std::vector<Axis> kGradientAxes = {Axis::context, Axis::data};

// How groups lie on nodes of `ranks_a_node` consecutive ranks each.
struct GroupPlacement {
  int inside = 0;      // groups with all their ranks on one node
  int crossing = 0;    // others: they talk over the links between nodes
  int most_nodes = 0;  // that one group is spread over

  bool operator==(const GroupPlacement&) const = default;
};

// Throws InputError when ranks_a_node < 1. The last node may be a part of one.
GroupPlacement placement(const RankGroups& groups, const std::vector<Axis>& axes, int ranks_a_node);
inline GroupPlacement placement(const RankGroups& groups, Axis axis, int ranks_a_node) {
  return placement(groups, std::vector{axis}, ranks_a_node);
}

// Tensor parallelism deals out whole kv heads with the query heads that read them, the same number
// to each rank. Throws InputError that says which sizes would do, unless `tensor_size` divides both
// (a kv head is not copied to several ranks).
void check_tensor_heads(Index num_heads, Index num_heads_kv, int tensor_size);

}  // namespace ringscope
