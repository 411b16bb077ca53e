#include "core/layer/group_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace ringscope {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

std::string letters_of(const std::vector<std::vector<int>>& groups, int world_size) {
  std::string letters(static_cast<std::size_t>(world_size), ' ');
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const int rank : groups[g]) letters[static_cast<std::size_t>(rank)] = kLetters[g];
  return letters;
}

// With what stands at the first rank of every node.
std::string line(std::string_view name, const std::string& ranks, int ranks_a_node) {
  std::string text = fmt::format("{:<12}", name);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0 && i % static_cast<std::size_t>(ranks_a_node) == 0) text += " | ";
    text += ranks[i];
  }
  return text;
}

std::string numbers_line(int world_size, int ranks_a_node) {
  std::string text = fmt::format("{:<12}", "rank");
  for (int first = 0; first < world_size; first += ranks_a_node)
    text += fmt::format("{:<{}}", first, ranks_a_node + 3);
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string group_drawing(const RankGroups& groups, int ranks_a_node) {
  const int world_size = groups.world_size();
  if (ranks_a_node < 1)
    throw InputError(fmt::format("ranks a node: {} given, at least 1 accepted", ranks_a_node));
  if (world_size > kMostDrawnRanks)
    throw InputError(
        fmt::format("drawing: {} ranks given, at most {} accepted", world_size, kMostDrawnRanks));
  ranks_a_node = std::min(ranks_a_node, world_size);
  std::string text = numbers_line(world_size, ranks_a_node);
  const auto add = [&](std::string_view name, const std::vector<Axis>& axes) {
    text += "\n" + line(name, letters_of(groups.groups(axes), world_size), ranks_a_node);
  };
  for (const Axis axis : kAllAxes)
    if (groups.sizes()[axis] > 1) add(name_of(axis), {axis});
  if (groups.sizes()[Axis::context] > 1 && groups.sizes()[Axis::data] > 1)
    add("gradients", kGradientAxes);
  return text;
}

}  // namespace ringscope
