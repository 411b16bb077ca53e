#include "core/problem/conventions.h"

namespace ringscope {
namespace {

Index num_documents(const Mask& mask) { return max_of(mask.num_documents, 1); }

// Return the length of a document as the convention pads it.
Index padded(Convention convention, Index length, int world_size) {
  return convention == Convention::ringscope ? length : round_up(length, 2 * Index{world_size});
}

void add_row(FedRows& rows, Convention convention, Index position, Interval document) {
  if (position >= document.last) {
    rows.positions.push_back(kPadding);
    rows.labels.push_back(kNoLabel);
    rows.rope_positions.push_back(0);
    return;
  }
  const bool restarts = convention == Convention::ring_flash_attention ||
                        convention == Convention::transformer_engine;
  rows.positions.push_back(position);
  rows.labels.push_back(position + 1 < document.last ? position + 1 : kNoLabel);
  rows.rope_positions.push_back(restarts ? position - document.first : position);
}

}  // namespace

FedRows fed_rows(Convention convention, const Mask& mask, const Partition& partition, int rank) {
  FedRows rows;
  const LocalRows held = partition.rows_of(rank);
  const Index n = partition.world_size;
  for (Index d = 0; d < num_documents(mask); ++d) {
    rows.cu_seqlens.push_back(static_cast<Index>(rows.positions.size()));
    const Interval document = mask.document(d);
    if (convention == Convention::ringscope) {
      for (Index row = held.rows_below(document.first); row < held.rows_below(document.last); ++row)
        add_row(rows, convention, held.global_position(row), document);
      continue;
    }
    const Index chunk = padded(convention, document.size(), partition.world_size) / (2 * n);
    for (const Index k : {Index{rank}, 2 * n - 1 - rank})
      for (Index i = k * chunk; i < (k + 1) * chunk; ++i)
        add_row(rows, convention, document.first + i, document);
  }
  rows.cu_seqlens.push_back(static_cast<Index>(rows.positions.size()));
  return rows;
}

std::vector<Index> padded_cu_seqlens(Convention convention, const Mask& mask, int world_size) {
  std::vector<Index> ends = {0};
  for (Index d = 0; d < num_documents(mask); ++d)
    ends.push_back(ends.back() + padded(convention, mask.document(d).size(), world_size));
  return ends;
}

}  // namespace ringscope
