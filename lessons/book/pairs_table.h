// The pairs of every rank at every step of a ring: as a table, and what they come down to.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/ring/run.h"
#include "core/trace/summary.h"
#include "lessons/book/cell.h"

namespace ringscope::lessons {

// A row for each rank, a column for each step: pairs as shares of a full block of seqlen/world_size
// squared, or "idle".
inline Table pairs_table(const RingConfig& config) {
  const double rows = static_cast<double>(config.shape.seqlen) / config.world_size;
  std::vector<std::string> head = {""};
  for (int step = 0; step < config.world_size; ++step) head.push_back(fmt::format("step {}", step));
  Table table(head);
  for (int rank = 0; rank < config.world_size; ++rank) {
    std::vector<Cell> cells = {fmt::format("rank {}", rank)};
    for (int step = 0; step < config.world_size; ++step) {
      const auto pairs = static_cast<double>(predicted_pairs(config, rank, step));
      cells.push_back(pairs == 0 ? Cell("idle") : fixed(pairs / (rows * rows), 2));
    }
    table.add(cells);
  }
  return table;
}

// A meeting is a rank at a step, with the block that it holds then.
struct Meetings {
  int with_work = 0;           // those that have an allowed pair
  double balance_ceiling = 0;  // by pairs
};

inline Meetings meetings(const RingConfig& config) {
  Meetings all;
  std::vector<std::vector<double>> work(static_cast<std::size_t>(config.world_size));
  for (int rank = 0; rank < config.world_size; ++rank)
    for (int step = 0; step < config.world_size; ++step) {
      const Index pairs = predicted_pairs(config, rank, step);
      work[static_cast<std::size_t>(rank)].push_back(static_cast<double>(pairs));
      all.with_work += pairs > 0;
    }
  all.balance_ceiling = balance_ceiling(work);
  return all;
}

}  // namespace ringscope::lessons
