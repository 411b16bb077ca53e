// What each rank feeds into a model, in the conventions of this project and of four libraries:
// which positions it holds, where documents begin among its rows, which position's token each row
// is to predict, and where rotary embeddings take it to be.
//
// The libraries cut a sequence (each document of a packed one) into 2N chunks for N ranks, of which
// rank r holds chunks r and 2N-1-r. They demand that 2N divides its length, so the rows are padded.
//
//   ring-flash-attention   zigzag_ring_flash_attn_varlen; cu_seqlens / N
//   the same, llama3       llama3_flash_attn_varlen: equal shares of the packed sequence, one after the
//                          other; cu_seqlens_q, of the documents that the share meets
//   TransformerEngine      THD format, thd_partition_indices_kernel (common/fused_attn); its
//                          cu_seqlens / N, of padded documents; fused_rope counts through the padding
//   PyTorch                context_parallel with _HeadTailLoadBalancer or, for documents,
//                          _PerDocumentHeadTailLoadBalancer (rank by rank; earlier versions put
//                          document after document); where 2N does not divide the sequence, shares
//                          of torch.chunk
//   the same, ptrr         _PTRRLoadBalancer: blocks of a BlockMask, this project's partition ptrr:ROWS
//   Megatron-LM            get_batch_on_this_cp_rank; TransformerEngine's for packed documents
//   the same, contiguous   equal shares of the sequence, one after the other, as linear attention has
//                          them
#pragma once

#include <string_view>
#include <vector>

#include "core/base/names.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"

namespace ringscope {

enum class Convention {
  ringscope,
  ring_flash_attention,
  ring_flash_attention_llama3,
  transformer_engine,
  pytorch,
  pytorch_ptrr,
  megatron,
  megatron_contiguous
};
constexpr auto names_of(Convention) {
  return list_of({"ringscope", "ring-flash-attention", "ring-flash-attention-llama3",
                  "transformer-engine", "pytorch", "pytorch-ptrr", "megatron",
                  "megatron-contiguous"});
}

inline constexpr Index kPadding = -1;    // a position that no token has
inline constexpr Index kNoLabel = -100;  // what PyTorch's cross_entropy ignores

// By row, unless a comment says otherwise.
struct FedRows {
  std::vector<Index> positions;
  // One entry more than documents: how many rows come before each document, the last one: all.
  std::vector<Index> cu_seqlens;
  // The position whose token the row predicts, `label_shift` after its own in its document, wherever
  // that lies.
  std::vector<Index> labels;
  std::vector<Index> rope_positions;
  // Of the llama3 way alone: the keys that the rows need are local_k of the gathered sequence, and
  // cu_seqlens_k says how many of these come before each document.
  std::vector<Index> cu_seqlens_k = {};
  Interval local_k = {0, 0};
};

// Return the rows of `rank`. Its partition matters in this project's convention and in PyTorch's ptrr.
// Rotary positions count from the start of the sequence here and in PyTorch, from that of the document
// in the others. Padding has kPadding, kNoLabel and rotary position 0, or in TransformerEngine and
// Megatron-LM the one that follows. A label_shift of more than 1 is that of multi-token prediction.
FedRows fed_rows(Convention convention, const Mask& mask, const Partition& partition, int rank,
                 Index label_shift = 1);

// Return whether a convention takes rows as a partition of this project deals them out.
constexpr bool deals_as_here(Convention convention) {
  return convention == Convention::ringscope || convention == Convention::pytorch_ptrr;
}

// Return whether each rank holds one share of the sequence as it is, without padding.
bool holds_shares(Convention convention, const Mask& mask, int world_size);

// Return the ends of the documents, with 0 in front, as long as `convention` pads them.
std::vector<Index> padded_cu_seqlens(Convention convention, const Mask& mask, int world_size);

}  // namespace ringscope
