#include "core/problem/conventions.h"

namespace ringscope {
namespace {

Index num_documents(const Mask& mask) { return max_of(mask.num_documents, 1); }

void add_row(FedRows& rows, Convention convention, Index position, Interval document,
             Index label_shift) {
  const bool restarts = !deals_as_here(convention) && convention != Convention::pytorch,
             is_padding = position >= document.last,
             counts = !is_padding || convention == Convention::transformer_engine ||
                      convention == Convention::megatron;
  const Index label = position + label_shift;
  rows.positions.push_back(is_padding ? kPadding : position);
  rows.labels.push_back(label < document.last ? label : kNoLabel);
  rows.rope_positions.push_back(!counts ? 0 : restarts ? position - document.first : position);
}

// Say which keys of the gathered sequence the queries [first, last) need: of all documents that they
// meet, under a causal mask up to their own end.
void add_keys(FedRows& rows, const Mask& mask, Interval queries) {
  const Index first = mask.document_of(queries.first), last = mask.document_of(queries.last - 1);
  rows.local_k = {mask.document(first).first,
                  mask.causal ? queries.last : mask.document(last).last};
  for (Index d = first; d <= last; ++d)
    rows.cu_seqlens_k.push_back(mask.document(d).first - rows.local_k.first);
  rows.cu_seqlens_k.push_back(rows.local_k.size());
}

}  // namespace

bool holds_shares(Convention convention, const Mask& mask, int world_size) {
  return convention == Convention::ring_flash_attention_llama3 ||
         convention == Convention::megatron_contiguous ||
         (convention == Convention::pytorch && num_documents(mask) == 1 &&
          mask.seqlen % (2 * Index{world_size}) != 0);
}

FedRows fed_rows(Convention convention, const Mask& mask, const Partition& partition, int rank,
                 Index label_shift) {
  FedRows rows;
  const LocalRows held = partition.rows_of(rank);
  const Index n = partition.world_size, share = (mask.seqlen + n - 1) / n;
  const bool shares = holds_shares(convention, mask, partition.world_size);
  const Interval of_share{min_of(rank * share, mask.seqlen),
                          min_of((rank + 1) * share, mask.seqlen)};
  for (Index d = 0; d < num_documents(mask); ++d) {
    const auto before = static_cast<Index>(rows.positions.size());
    const Interval document = mask.document(d);
    const auto add = [&](Index position) {
      add_row(rows, convention, position, document, label_shift);
    };
    if (deals_as_here(convention)) {
      for (Index row = held.rows_below(document.first); row < held.rows_below(document.last); ++row)
        add(held.global_position(row));
    } else if (shares) {
      const Interval part = intersection(of_share, document);
      for (Index i = part.first; i < part.last; ++i) add(i);
      if (part.size() <= 0 && num_documents(mask) > 1) continue;
    } else {
      const Index chunk = round_up(document.size(), 2 * n) / (2 * n);
      for (const Index k : {Index{rank}, 2 * n - 1 - rank})
        for (Index i = k * chunk; i < (k + 1) * chunk; ++i) add(document.first + i);
    }
    rows.cu_seqlens.push_back(before);
  }
  rows.cu_seqlens.push_back(static_cast<Index>(rows.positions.size()));
  if (convention == Convention::ring_flash_attention_llama3 && of_share.size() > 0)
    add_keys(rows, mask, of_share);
  return rows;
}

std::vector<Index> padded_cu_seqlens(Convention convention, const Mask& mask, int world_size) {
  const bool pads = !deals_as_here(convention) && !holds_shares(convention, mask, world_size);
  std::vector<Index> ends = {0};
  for (Index d = 0; d < num_documents(mask); ++d) {
    const Index length = mask.document(d).size();
    ends.push_back(ends.back() + (pads ? round_up(length, 2 * Index{world_size}) : length));
  }
  return ends;
}

}  // namespace ringscope
