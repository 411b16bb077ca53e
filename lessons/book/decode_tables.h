// Tables of what a decode step costs by formula: work per byte read, bytes on links, and messages.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "core/base/math.h"
#include "core/cost/hardware.h"
#include "core/decode/merge.h"
#include "lessons/book/cell.h"

namespace ringscope::lessons {

// Return the FLOPs of attention per byte of K and V read, if `queries` rows of g query heads use
// each number read once: a multiplication and an addition each.
inline double flops_a_byte(Index queries, Index g, Index bytes_a_number) {
  return 2.0 * static_cast<double>(queries * g) / static_cast<double>(bytes_a_number);
}

// Compare these with what `gpu` could do while it reads a byte. Its memory speed must be known.
inline Table roofline_table(const Gpu& gpu) {
  Table table({"", "FLOPs a byte", "the " + gpu.name + " could do", "of its peak, at most"});
  const auto add = [&](const char* what, DType dtype, Index queries, Index g) {
    const double flops = flops_a_byte(queries, g, bytes_of(dtype));
    const double could = gpu.peak_flops(dtype) / gpu.memory_bytes_per_s.value();
    table.row(what, flops, std::round(could), percent(std::min(1.0, flops / could)));
  };
  add("decode, f32, g = 1", DType::f32, 1, 1);
  add("decode, f32, g = 4", DType::f32, 1, 4);
  add("decode, 16 bits, g = 4", DType::bf16, 1, 4);
  add("prefill, 16 bits, g = 4, 4,096 queries", DType::bf16, 4096, 4);
  return table;
}

// Tabulate how long one token's bytes take on two links: those of K and V that each of 8 ranks
// would send, or those on the longest path of a merge in each of `layers`. Per-message costs are
// left out.
inline Table ways_table(double ring_bytes, const MergeCost& ring, const MergeCost& tree,
                        double layers) {
  Table table(
      {"for one token, 8 ranks", "bytes, one after the other", "NVLink4", "InfiniBand-NDR"});
  const auto way = [&](const char* what, double count) {
    const auto on = [&](const char* link) {
      return fmt::format("{:.3f} ms", 1e3 * count / find_link(link).bytes_per_s);
    };
    table.row(what, bytes(count), on("NVLink4"), on("InfiniBand-NDR"));
  };
  way("K and V round a ring", ring_bytes);
  way("results round a ring", layers * static_cast<double>(ring.way_bytes));
  way("results up a tree and down", layers * static_cast<double>(tree.way_bytes));
  return table;
}

// Tabulate one merge of `heads` heads of head_dim numbers.
inline Table merge_table(Index heads, Index head_dim, std::initializer_list<int> world_sizes) {
  Table table(
      {"ranks", "ring: rounds", "messages", "tree: rounds", "messages", "bytes, in either"});
  for (const int n : world_sizes) {
    const MergeCost ring = merge_cost(MergeKind::ring, heads, head_dim, n);
    const MergeCost tree = merge_cost(MergeKind::tree, heads, head_dim, n);
    table.row(n, ring.rounds, ring.messages, tree.rounds, tree.messages,
              bytes(static_cast<double>(tree.bytes)));
  }
  return table;
}

}  // namespace ringscope::lessons
