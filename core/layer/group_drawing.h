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
#pragma once

#include <string>

#include "core/layer/rank_groups.h"

namespace ringscope {

// Larger worlds have more groups than there are letters, and lines that nobody can read.
inline constexpr int kMostDrawnRanks = 104;

// Ends without a newline. Throws InputError when ranks_a_node < 1, or for more ranks than that.
std::string group_drawing(const RankGroups& groups, int ranks_a_node);

}  // namespace ringscope
