#include "core/problem/conventions.h"

namespace ringscope {
namespace {

Index num_documents(const Mask& mask) { return max_of(mask.num_documents, 1); }

void add_row(FedRows& rows, Convention convention, Index position, Interval document) {
  const bool restarts = convention != Convention::ringscope && convention != Convention::pytorch,
             is_padding = position >= document.last,
             counts = !is_padding || convention == Convention::transformer_engine;
  rows.positions.push_back(is_padding ? kPadding : position);
  rows.labels.push_back(position + 1 < document.last ? position + 1 : kNoLabel);
  rows.rope_positions.push_back(!counts ? 0 : restarts ? position - document.first : position);
}

}  // namespace

bool holds_shares(Convention convention, const Mask& mask, int world_size) {
  return convention == Convention::ring_flash_attention_llama3 ||
         (convention == Convention::pytorch && num_documents(mask) == 1 &&
          mask.seqlen % (2 * Index{world_size}) != 0);
}

FedRows fed_rows(Convention convention, const Mask& mask, const Partition& partition, int rank) {
  FedRows rows;
  const LocalRows held = partition.rows_of(rank);
  const Index n = partition.world_size, share = (mask.seqlen + n - 1) / n;
  const bool shares = holds_shares(convention, mask, partition.world_size);
  for (Index d = 0; d < num_documents(mask); ++d) {
    const auto before = static_cast<Index>(rows.positions.size());
    const Interval document = mask.document(d);
    if (convention == Convention::ringscope) {
      for (Index row = held.rows_below(document.first); row < held.rows_below(document.last); ++row)
        add_row(rows, convention, held.global_position(row), document);
    } else if (shares) {
      for (Index i = max_of(rank * share, document.first);
           i < min_of((rank + 1) * share, document.last); ++i)
        add_row(rows, convention, i, document);
      if (std::ssize(rows.positions) == before && num_documents(mask) > 1) continue;
    } else {
      const Index chunk = round_up(document.size(), 2 * n) / (2 * n);
      for (const Index k : {Index{rank}, 2 * n - 1 - rank})
        for (Index i = k * chunk; i < (k + 1) * chunk; ++i)
          add_row(rows, convention, document.first + i, document);
    }
    rows.cu_seqlens.push_back(before);
  }
  rows.cu_seqlens.push_back(static_cast<Index>(rows.positions.size()));
  return rows;
}

std::vector<Index> padded_cu_seqlens(Convention convention, const Mask& mask, int world_size) {
  const bool pads =
      convention != Convention::ringscope && !holds_shares(convention, mask, world_size);
  std::vector<Index> ends = {0};
  for (Index d = 0; d < num_documents(mask); ++d) {
    const Index length = mask.document(d).size();
    ends.push_back(ends.back() + (pads ? round_up(length, 2 * Index{world_size}) : length));
  }
  return ends;
}

}  // namespace ringscope
