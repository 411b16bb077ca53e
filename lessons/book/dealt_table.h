// How partitions deal out a short sequence, as a table: which positions each rank holds.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/partition/partition.h"
#include "lessons/book/cell.h"

namespace ringscope::lessons {

// A row for each rank, a column for each partition; seqlen positions, from 0, on world_size ranks.
inline Table dealt_table(const std::vector<PartitionKind>& kinds, Index seqlen, int world_size) {
  std::vector<std::string> head = {""};
  for (const PartitionKind kind : kinds) head.emplace_back(name_of(kind));
  Table table(head);
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<Cell> cells = {fmt::format("rank {}", rank)};
    for (const PartitionKind kind : kinds) {
      const LocalRows rows = Partition{kind, seqlen, world_size}.rows_of(rank);
      std::string text;
      for (Index i = 0; i < rows.size(); ++i) text += fmt::format("{:3}", rows.global_position(i));
      cells.push_back(text);
    }
    table.add(cells);
  }
  return table;
}

}  // namespace ringscope::lessons
