// What ranks feed into a model: an example worked by hand, and what must hold for any.
#include "core/problem/conventions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ringscope {
namespace {

using Numbers = std::vector<Index>;

// Documents of 3 and 8 positions on 2 ranks: 4 chunks each, of 1 row (the fourth is padding) and 2.
TEST(Conventions, PaddedDocumentsOnTwoRanks) {
  const MaskSpec spec = MaskSpec::parse("causal+documents:3,8");
  const Mask mask = spec.for_seqlen(11);
  const Partition any{PartitionKind::contiguous, 11, 2};
  for (const Convention convention :
       {Convention::ring_flash_attention, Convention::transformer_engine}) {
    const FedRows first = fed_rows(convention, mask, any, 0);
    EXPECT_EQ(first.positions, (Numbers{0, -1, 3, 4, 9, 10}));
    EXPECT_EQ(first.cu_seqlens, (Numbers{0, 2, 6}));
    EXPECT_EQ(first.labels, (Numbers{1, -100, 4, 5, 10, -100}));
    const Index padding = convention == Convention::transformer_engine ? 3 : 0;
    EXPECT_EQ(first.rope_positions, (Numbers{0, padding, 0, 1, 6, 7}));
    const FedRows second = fed_rows(convention, mask, any, 1);
    EXPECT_EQ(second.positions, (Numbers{1, 2, 5, 6, 7, 8}));
    EXPECT_EQ(second.labels, (Numbers{2, -100, 6, 7, 8, 9}));
    EXPECT_EQ(second.rope_positions, (Numbers{1, 2, 2, 3, 4, 5}));
    EXPECT_EQ(padded_cu_seqlens(convention, mask, 2), (Numbers{0, 4, 12}));
  }
  EXPECT_EQ(padded_cu_seqlens(Convention::ringscope, mask, 2), (Numbers{0, 3, 11}));
  const FedRows ours = fed_rows(Convention::ringscope, mask, any, 0);
  EXPECT_EQ(ours.positions, (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ours.cu_seqlens, (Numbers{0, 3, 6}));
  EXPECT_EQ(ours.labels, (Numbers{1, 2, -100, 4, 5, 6}));
  EXPECT_EQ(ours.rope_positions, ours.positions);
}

// The example in the comment of PyTorch's _HeadTailLoadBalancer: [0, 7, 1, 6, 2, 5, 3, 4] are the
// chunks of four ranks.
TEST(Conventions, HeadAndTailOfPyTorch) {
  const Mask mask{.seqlen = 8, .causal = true};
  for (int rank = 0; rank < 4; ++rank) {
    const FedRows rows = fed_rows(Convention::pytorch, mask, {PartitionKind::zigzag, 8, 4}, rank);
    EXPECT_EQ(rows.positions, (Numbers{rank, 7 - rank}));
    EXPECT_EQ(rows.cu_seqlens, (Numbers{0, 2}));
    EXPECT_EQ(rows.rope_positions, rows.positions);
  }
}

// A sequence that 2N doesn't divide is dealt out as torch.chunk() cuts it.
TEST(Conventions, SharesOfPyTorchWithoutBalance) {
  const Mask mask{.seqlen = 7, .causal = true};
  const Numbers shares[] = {{0, 1}, {2, 3}, {4, 5}, {6}};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(
        fed_rows(Convention::pytorch, mask, {PartitionKind::contiguous, 7, 4}, rank).positions,
        shares[rank]);
  EXPECT_EQ(padded_cu_seqlens(Convention::pytorch, mask, 4), (Numbers{0, 7}));
}

// The example in the comment of _PerDocumentHeadTailLoadBalancer: 4, 8 and 4 positions on two ranks.
TEST(Conventions, DocumentsOfPyTorch) {
  const MaskSpec spec = MaskSpec::parse("causal+documents:4,8,4");
  const Mask mask = spec.for_seqlen(16);
  const Partition any{PartitionKind::contiguous, 16, 2};
  const FedRows first = fed_rows(Convention::pytorch, mask, any, 0),
                second = fed_rows(Convention::pytorch, mask, any, 1);
  EXPECT_EQ(first.positions, (Numbers{0, 3, 4, 5, 10, 11, 12, 15}));
  EXPECT_EQ(second.positions, (Numbers{1, 2, 6, 7, 8, 9, 13, 14}));
  EXPECT_EQ(second.cu_seqlens, (Numbers{0, 2, 6, 8}));
  EXPECT_EQ(second.rope_positions, second.positions);
}

// What llama3_flash_attn_prepare_cu_seqlens gives for cu_seqlens 0, 3, 4, 12 on three ranks.
TEST(Conventions, SharesOfLlama3) {
  const MaskSpec spec = MaskSpec::parse("causal+documents:3,1,8");
  const Mask mask = spec.for_seqlen(12);
  const Numbers ends[] = {{0, 3, 4}, {0, 4}, {0, 4}};
  const Numbers rope[] = {{0, 1, 2, 0}, {0, 1, 2, 3}, {4, 5, 6, 7}};
  for (int rank = 0; rank < 3; ++rank) {
    const FedRows rows = fed_rows(Convention::ring_flash_attention_llama3, mask,
                                  {PartitionKind::contiguous, 12, 3}, rank);
    EXPECT_EQ(rows.positions, (Numbers{4 * rank, 4 * rank + 1, 4 * rank + 2, 4 * rank + 3}));
    EXPECT_EQ(rows.cu_seqlens, ends[rank]);
    EXPECT_EQ(rows.rope_positions, rope[rank]);
  }
}

// Its keys begin with the first document that a share meets. They end with the share under a causal mask,
// and with its last document under others.
TEST(Conventions, KeysOfSharesOfLlama3) {
  for (const bool causal : {true, false}) {
    const MaskSpec spec = MaskSpec::parse(causal ? "causal+documents:3,6,3" : "documents:3,6,3");
    const Mask mask = spec.for_seqlen(12);
    const Numbers ends[] = {{0, 3, causal ? 4 : 9}, {0, causal ? 5 : 6}, {0, 6, 9}};
    const Interval keys[] = {{0, causal ? 4 : 9}, {3, causal ? 8 : 9}, {3, 12}};
    for (int rank = 0; rank < 3; ++rank) {
      const FedRows rows = fed_rows(Convention::ring_flash_attention_llama3, mask,
                                    {PartitionKind::contiguous, 12, 3}, rank);
      EXPECT_EQ(rows.cu_seqlens_k, ends[rank]);
      EXPECT_EQ(rows.local_k.first, keys[rank].first);
      EXPECT_EQ(rows.local_k.last, keys[rank].last);
    }
  }
}

// The example in the comment of _PTRRLoadBalancer: blocks of 4, 8 and 4 on two ranks.
TEST(Conventions, BlocksOfPyTorchByTheirWork) {
  for (const Index block : {1, 3}) {
    PartitionSpec partition = PartitionSpec::parse("ptrr:" + std::to_string(block));
    const Index sizes[] = {4 * block, 8 * block, 4 * block};
    const MaskSpec spec =
        MaskSpec::parse("causal+documents:" + std::to_string(sizes[0]) + "," +
                        std::to_string(sizes[1]) + "," + std::to_string(sizes[2]));
    const Mask mask = spec.for_seqlen(16 * block);
    partition.deal_out(mask, 2);
    const Numbers blocks[] = {{2, 3, 5, 6, 8, 11, 12, 13}, {0, 1, 4, 7, 9, 10, 14, 15}};
    for (int rank = 0; rank < 2; ++rank) {
      Numbers positions;
      for (const Index k : blocks[rank])
        for (Index i = 0; i < block; ++i) positions.push_back(k * block + i);
      EXPECT_EQ(
          fed_rows(Convention::pytorch_ptrr, mask, partition.of(16 * block, 2), rank).positions,
          positions);
    }
  }
}

TEST(Conventions, MegatronCutsIntoChunksOrShares) {
  const Mask mask{.seqlen = 8, .causal = true};
  const Partition any{PartitionKind::zigzag, 8, 2};
  EXPECT_EQ(fed_rows(Convention::megatron, mask, any, 1).positions, (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(fed_rows(Convention::megatron_contiguous, mask, any, 1).positions,
            (Numbers{4, 5, 6, 7}));
}

// Heads of multi-token prediction predict tokens further on, but none of another document.
TEST(Conventions, LabelsMayBeShiftedFurther) {
  const MaskSpec spec = MaskSpec::parse("causal+documents:3,5");
  const Mask mask = spec.for_seqlen(8);
  const FedRows rows =
      fed_rows(Convention::ringscope, mask, {PartitionKind::contiguous, 8, 1}, 0, 2);
  EXPECT_EQ(rows.labels, (Numbers{2, -100, -100, 5, 6, 7, -100, -100}));
}

TEST(Conventions, EveryPositionOnceAndEveryLabelTheNextOfItsDocument) {
  const MaskSpec spec = MaskSpec::parse("documents:1,9,4,17");
  const Mask mask = spec.for_seqlen(31);
  for (const Convention convention : kAllOf<Convention>)
    for (int n = 1; n <= 9; ++n) {
      PartitionSpec partition = PartitionSpec::parse("documents:zigzag");
      partition.deal_out(mask, n);
      Numbers seen;
      for (int rank = 0; rank < n; ++rank) {
        const FedRows rows = fed_rows(convention, mask, partition.of(31, n), rank);
        ASSERT_EQ(rows.labels.size(), rows.positions.size());
        ASSERT_EQ(rows.rope_positions.size(), rows.positions.size());
        const bool has_all = convention != Convention::ring_flash_attention_llama3 &&
                             convention != Convention::megatron_contiguous;
        if (has_all) {
          ASSERT_EQ(rows.cu_seqlens.size(), 5u);
        }
        ASSERT_EQ(rows.cu_seqlens.back(), static_cast<Index>(rows.positions.size()));
        for (std::size_t row = 0; row < rows.positions.size(); ++row) {
          const Index position = rows.positions[row];
          if (position == kPadding) {
            EXPECT_EQ(rows.labels[row], kNoLabel);
            continue;
          }
          seen.push_back(position);
          const Index d = mask.document_of(position);
          if (has_all) {
            EXPECT_LE(rows.cu_seqlens[d], static_cast<Index>(row));
            EXPECT_LT(static_cast<Index>(row), rows.cu_seqlens[d + 1]);
          }
          const bool last = position + 1 == mask.document(d).last;
          EXPECT_EQ(rows.labels[row], last ? kNoLabel : position + 1);
        }
      }
      std::sort(seen.begin(), seen.end());
      Numbers all;
      for (Index p = 0; p < 31; ++p) all.push_back(p);
      EXPECT_EQ(seen, all) << name_of(convention) << ", " << n << " ranks";
    }
}

}  // namespace
}  // namespace ringscope
