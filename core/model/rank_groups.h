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
#include <string>
#include <string_view>
#include <vector>

#include "core/base/math.h"
#include "core/problem/shape.h"

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

// ---
// The groups of a world as text, a line an axis, a letter a rank: ranks with the same letter in a
// line are a group. Bars stand where a node ends. Of 2 x 2 x 1 x 2 ranks, four a node:
//
//   rank        0      4
//   tensor      aabb | ccdd
//   context     abab | cdcd
//   data        abcd | abcd
//   gradients   abab | abab
//
// Axes of one rank are left out, and gradients (kGradientAxes) where they are context's or data's.

// Larger worlds have more groups than there are letters, and lines that nobody can read.
inline constexpr int kMostDrawnRanks = 104;

// Ends without a newline. Throws InputError when ranks_a_node < 1, or for more ranks than that.
std::string group_drawing(const RankGroups& groups, int ranks_a_node);

// ---
// What a rank sends to those of its groups (rank_groups.h) in one training step, by formula: of
// attention layers only. (MLPs split alike would add as many sums over TP again, and gradients of
// their weights.) A rank has c = S/CP rows of each of b sequences, L/PP layers, and G/TP heads of K
// and V; a row is W values wide, a value e bytes.
//
//   TP        two sums a layer, of y and of dx       2 (TP-1)/TP  b c W e  each
//   CP        a ring a layer: 2 (CP-1) hops of K, V  2 b c (G/TP) d e      each
//                             CP hops of dK, dV      2 b c (G/TP) d 4      each
//   PP        rows to the next stage, dx to the      b c W e               each
//             previous one; the ends do half of it
//   gradients one sum a step over n = CP x DP        2 (n-1)/n  weights 4
//
// (S1, part two, 13 says which group should have the fastest links, but not what it sends.)

struct GroupJob {
  AttentionShape shape;  // whole: all heads, all rows; batch: sequences of one DP index
  Index width = 1;       // of a row between the layers
  Index layers = 1;      // of all stages
  Index value_bytes = 4;
  PerAxis sizes{{1, 1, 1, 1}};
};

// How often a rank has something to send, and how many bytes in all: on average over the ranks.
struct Talk {
  double times = 0;  // sums over a group; hops of the ring; messages between stages
  double bytes = 0;
};

struct GroupTraffic {
  Talk tensor, context, pipeline, gradients;
};

// Of one step. Throws InputError as validate and check_tensor_heads, for a size below 1, and when
// there are more stages than layers.
GroupTraffic group_traffic(const GroupJob& job);

// Bytes of the block of K and V that a rank passes on in a hop.
double ring_block_bytes(const GroupJob& job);

}  // namespace ringscope
