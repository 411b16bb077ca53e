// The groups of ranks that work together when a world is split in four ways at once:
//
//   TP  tensor     heads (columns of weights)      a group adds up activations, layer by layer
//   CP  context    the sequence                    runs a ring of attention; adds up gradients
//   PP  pipeline   layers                          passes rows on from stage to stage
//   DP  data       batches                         adds up gradients
//
//   rank = ((dp * PP + pp) * CP + cp) * TP + tp
//
// (S1, part two, 13; claim C53.) Ranks that differ along one axis only form a group of that axis,
// and they hold the same of everything else. The innermost axis has consecutive ranks, so the ranks
// that communicate most are neighbours on a node. Every rank knows every group from the four sizes.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/math.h"
#include "core/base/names.h"
#include "core/problem/shape.h"
#include "core/ring/seams.h"

namespace ringscope {

enum class Axis { tensor, context, pipeline, data };  // innermost first
constexpr auto names_of(Axis) { return list_of({"tensor", "context", "pipeline", "data"}); }
inline constexpr auto kAllAxes = kAllOf<Axis>;

// One number per axis, in the order of Axis: how many ranks it has, or a rank's index along it.
struct PerAxis {
  std::array<int, 4> numbers{};

  int& operator[](Axis axis) { return numbers[static_cast<std::size_t>(axis)]; }
  int operator[](Axis axis) const { return numbers[static_cast<std::size_t>(axis)]; }
  bool operator==(const PerAxis&) const = default;
};

class RankGroups {
 public:
  // Throw InputError unless every size is at least 1 and their product is world_size.
  RankGroups(const PerAxis& sizes, int world_size);

  int world_size() const { return world_size_; }
  const PerAxis& sizes() const { return sizes_; }

  // Return a rank's indices, in [0, size) along each axis.
  PerAxis indices(int rank) const;

  // Return the group of `rank`, ascending. A rank's place in it is its index along the axis.
  std::vector<int> members(int rank, Axis axis) const { return members(rank, std::vector{axis}); }
  // Return the ranks that differ from `rank` along any of `axes` and along no other.
  std::vector<int> members(int rank, const std::vector<Axis>& axes) const;
  // Return all groups of the axes, ordered by first rank. Each rank of the world is in exactly one.
  std::vector<std::vector<int>> groups(Axis axis) const { return groups(std::vector{axis}); }
  std::vector<std::vector<int>> groups(const std::vector<Axis>& axes) const;

 private:
  PerAxis sizes_;
  int world_size_;
};

// Ranks that differ only along these axes hold the same weights, so a step's gradients are added up
// over them. (Adding up over context first, and then the results over data, works as well.)
inline const std::vector<Axis> kGradientAxes = {Axis::context, Axis::data};

// Counts of groups by how they lie on nodes of `ranks_a_node` consecutive ranks each.
struct GroupPlacement {
  int inside = 0;    // groups with all their ranks on one node
  int crossing = 0;  // others, which communicate over the links between nodes

  bool operator==(const GroupPlacement&) const = default;
};

// Count the groups. Throw InputError when ranks_a_node < 1. The last node may be incomplete.
GroupPlacement placement(const RankGroups& groups, const std::vector<Axis>& axes, int ranks_a_node);
inline GroupPlacement placement(const RankGroups& groups, Axis axis, int ranks_a_node) {
  return placement(groups, std::vector{axis}, ranks_a_node);
}

// Check that tensor parallelism can give each rank the same number of whole kv heads, with the
// query heads that read them, and of columns inside an MLP of `hidden`. A kv head is not copied to
// several ranks, so throw InputError unless `tensor_size` divides all three numbers.
void check_tensor_split(Index num_heads, Index num_heads_kv, int tensor_size, Index hidden = 0);

// The ranks of a group as a ring of their own, over the communicator of all ranks. A rank's number in
// it is its place in the group. (Failures still name ranks of the world.)
class GroupCommunicator : public Communicator {
 public:
  // `members` are ranks of `world`, which must outlive the hops, the caller's among them.
  GroupCommunicator(Communicator& world, std::vector<int> members)
      : world_(world),
        members_(std::move(members)),
        rank_(static_cast<int>(std::ranges::find(members_, world.rank()) - members_.begin())) {}

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(members_.size()); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    Exchange outside = hop;
    if (hop.sends()) outside.to = members_[hop.receiver(rank_, world_size())];
    if (hop.receives()) outside.from = members_[hop.sender(rank_, world_size())];
    return world_.exchange(outside, after);
  }

 private:
  Communicator& world_;
  std::vector<int> members_;
  int rank_;
};

// ---
// The traffic of one training step: what a rank sends to the ranks of its groups, by formula, for
// attention layers only. A rank has c = S/CP rows of each of b sequences, L/PP layers, and G/TP
// heads of K and V. A row is W values wide, and a value has e bytes.
//
//   TP        two sums a layer, of y and of dx       2 (TP-1)/TP  b c W e  each
//   CP        a ring a layer: 2 (CP-1) hops of K, V  2 b c (G/TP) d e      each
//                             CP hops of dK, dV      2 b c (G/TP) d 4      each
//   PP        rows to the next stage, dx to the      b c W e               each
//             previous one; the ends do half of it
//   gradients one sum a step over n = CP x DP        2 (n-1)/n  weights 4

struct GroupJob {
  AttentionShape shape;  // all heads and all rows; batch: sequences of one DP index
  Index width = 1;       // of a row between the layers
  Index layers = 1;      // over all stages
  Index value_bytes = 4;
  PerAxis sizes{{1, 1, 1, 1}};
};

// How often a rank sends something, and how many bytes in all, averaged over the ranks.
struct Talk {
  double times = 0;  // sums over a group; hops of the ring; rows to a stage
  double bytes = 0;
};

struct GroupTraffic {
  Talk tensor, context, pipeline, gradients;
};

// Return the traffic of one step. Throw InputError as validate() and check_tensor_split() do, for a
// size below 1, and for more stages than layers.
GroupTraffic group_traffic(const GroupJob& job);

// Return the bytes of the K and V block that a rank passes on in one hop.
double ring_block_bytes(const GroupJob& job);

}  // namespace ringscope
