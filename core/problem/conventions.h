// What each rank feeds into a model, in the conventions of this project and of three libraries:
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
#pragma once

#include <string_view>
#include <vector>

#include "core/problem/mask.h"
#include "core/problem/partition.h"

namespace ringscope {

enum class Convention {
  ringscope,
  ring_flash_attention,
  ring_flash_attention_llama3,
  transformer_engine,
  pytorch
};

inline constexpr Convention kAllConventions[] = {
    Convention::ringscope, Convention::ring_flash_attention,
    Convention::ring_flash_attention_llama3, Convention::transformer_engine, Convention::pytorch};

constexpr std::string_view name_of(Convention convention) {
  constexpr std::string_view names[] = {"ringscope", "ring-flash-attention",
                                        "ring-flash-attention-llama3", "transformer-engine",
                                        "pytorch"};
  return names[static_cast<int>(convention)];
}

inline constexpr Index kPadding = -1;    // a position that no token has
inline constexpr Index kNoLabel = -100;  // what PyTorch's cross_entropy ignores

// By row, unless a comment says otherwise.
struct FedRows {
  std::vector<Index> positions;
  // One entry more than documents: how many rows come before each document, the last one: all.
  std::vector<Index> cu_seqlens;
  // The position whose token the row predicts: the next one of its document, wherever that lies.
  std::vector<Index> labels;
  std::vector<Index> rope_positions;
};

// Return the rows of `rank`. Its partition matters in this project's convention only. Rotary
// positions count from the start of the sequence here and in PyTorch, from that of the document in
// the others. Padding has kPadding, kNoLabel and rotary position 0, or in TransformerEngine the one that
// follows.
FedRows fed_rows(Convention convention, const Mask& mask, const Partition& partition, int rank);

// Return whether each rank holds one share of the sequence as it is, without padding.
bool holds_shares(Convention convention, const Mask& mask, int world_size);

// Return the ends of the documents, with 0 in front, as long as `convention` pads them.
std::vector<Index> padded_cu_seqlens(Convention convention, const Mask& mask, int world_size);

}  // namespace ringscope
