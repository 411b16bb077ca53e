// What lesson 11 counts and draws.
#pragma once

#include <utility>

#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_11 {

// A meeting is one rank at one step, with the block that it then holds.
struct Meetings {
  int with_work = 0;           // meetings with an allowed pair
  double balance_ceiling = 0;  // computed from pairs

  std::string text() const { return fmt::format("{}, {:.1f} %", with_work, 100 * balance_ceiling); }
};

inline Meetings meetings(const Problem& config) {
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

// Simulate a ring whose hops take next to no time, with `kv_buffers` KV buffers per rank. Return the
// share of the time that its ranks compute.
inline double busy_share(Problem config, int kv_buffers) {
  config.kv_buffers = kv_buffers;
  Machine machine;
  machine.world_size = config.world_size;
  machine.rates = {.forward_flops = 1, .backward_flops = 1, .bytes_per_s = 1e30};
  const Simulation run = simulate({.job = config, .pace = Pace::buffers}, Work(config), machine);
  double computing = 0;
  for (const SimulatedRank& rank : run.ranks) computing += rank.compute_s;
  return computing / config.world_size / run.wall_s();
}

// Rows that all ranks together send in a forward pass, if each block goes as far as someone needs it.
struct RowsSent {
  Index ring = 0, cast = 0;  // a ring that sends what is needed; each row straight to who needs it
  int hops = 0;              // that the ring has

  explicit RowsSent(const Problem& config) {
    const RingProblem problem = config.ring_problem();
    const PartedBlocks by_ring(problem.mask, problem.partition, PartOrder::farthest_first);
    const PartedBlocks by_rank(problem.mask, problem.partition, PartOrder::by_position);
    hops = by_ring.hops;
    for (int owner = 0; owner < config.world_size; ++owner) {
      for (const BlockPart& part : by_ring.of_owner[owner]) ring += part.size() * part.last;
      for (const BlockPart& part : by_rank.of_owner[owner])
        cast += part.size() * std::count(part.needed_by.begin() + 1, part.needed_by.end(), true);
    }
  }
  std::string text() const { return Cell(ring).shown + " / " + Cell(cast).shown; }
};

// Tabulate text_of(problem) for each mask, with its name, and deal of 8,192 positions over eight ranks.
template <class F>
Table by_deal(const std::vector<std::pair<std::string, std::string>>& masks, const F& text_of) {
  Table all({"mask", "contiguous", "striped", "zigzag"});
  const auto cell = [&](const std::string& mask, PartitionKind kind) {
    return Cell(text_of(ring_job(1, 8192, 8, mask, kind)));
  };
  for (const auto& [name, mask] : masks)
    all.row(name, cell(mask, PartitionKind::contiguous), cell(mask, PartitionKind::striped),
            cell(mask, PartitionKind::zigzag));
  return all;
}

// Draw how much of rank 2's block arrives at each rank that needs any of it, of eight ranks.
inline Drawing block_of_rank_2(const std::string& mask) {
  Drawing travels;
  const RingProblem wider = ring_job(1, 8192, 8, mask, PartitionKind::contiguous).ring_problem();
  const PartedBlocks blocks_of(wider.mask, wider.partition, PartOrder::farthest_first);
  travels.heading("the block of rank 2, as it arrives");
  for (int hop = 0; hop <= blocks_of.hops; ++hop) {
    const auto held = static_cast<double>(blocks_of.rows(2, hop)) / 1024;
    std::vector<Drawing::Part> parts{{0, (1 - held) / 4, Drawing::kQuiet},
                                     {(1 - held) / 4, 0.25, 2, "K, V"}};
    if (hop > 0) parts.push_back({hop / 4.0, (hop + 1) / 4.0, 2 + hop, "its queries"});
    travels.strip(fmt::format("rank {}", 2 + hop), parts,
                  Cell(blocks_of.rows(2, hop)).shown + " rows");
  }
  return travels;
}

}  // namespace ringscope::lessons::chapter_11
