// Who holds which position: the closed forms against each partition's definition, position by
// position.
#include "core/problem/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/core/problem/held_rows.h"

namespace ringscope {
namespace {

// Which of `chunks` chunks holds `position`, when the first (seqlen mod chunks) are longer by one.
Index chunk_of(Index position, Index seqlen, Index chunks) {
  Index end = 0;
  for (Index chunk = 0;; ++chunk) {
    end += seqlen / chunks + (chunk < seqlen % chunks ? 1 : 0);
    if (position < end) return chunk;
  }
}

Index defined_rank(PartitionKind kind, Index position, Index seqlen, Index n) {
  switch (kind) {
    case PartitionKind::contiguous:
      return chunk_of(position, seqlen, n);
    case PartitionKind::striped:
      return position % n;
    case PartitionKind::zigzag: {
      const Index chunk = chunk_of(position, seqlen, 2 * n);
      return chunk < n ? chunk : 2 * n - 1 - chunk;
    }
    case PartitionKind::fold:
      return position / n % 2 == 0 ? position % n : n - 1 - position % n;
    case PartitionKind::dealt:
      break;  // pieces_test.cpp
  }
  return -1;
}

std::vector<Index> positions_of(const LocalRows& rows) {
  std::vector<Index> positions;
  for (Index i = 0; i < rows.size(); ++i) positions.push_back(rows.global_position(i));
  return positions;
}

class PartitionTest : public testing::TestWithParam<PartitionKind> {};

// Each position has one rank in the definition, so equality with it also says: dealt out exactly
// once.
TEST_P(PartitionTest, RanksHoldTheirPositionsInAscendingOrder) {
  for (const Index seqlen : {0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 16, 23, 24, 30, 41})
    for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 41})
      for (int rank = 0; rank < n; ++rank) {
        std::vector<Index> held;
        for (Index p = 0; p < seqlen; ++p)
          if (defined_rank(GetParam(), p, seqlen, n) == rank) held.push_back(p);
        SCOPED_TRACE(testing::Message() << "seqlen " << seqlen << ", rank " << rank << " of " << n);
        expect_rows(Partition{GetParam(), seqlen, n}.rows_of(rank), held, seqlen);
      }
}

TEST_P(PartitionTest, MaxRowsIsTheLargestShare) {
  for (Index seqlen = 0; seqlen <= 40; ++seqlen)
    for (int n = 1; n <= 9; ++n) {
      const Partition partition{GetParam(), seqlen, n};
      Index largest = 0, total = 0;
      for (int rank = 0; rank < n; ++rank) {
        largest = std::max(largest, partition.rows_of(rank).size());
        total += partition.rows_of(rank).size();
      }
      EXPECT_EQ(partition.max_rows(), largest) << "seqlen " << seqlen << ", world_size " << n;
      EXPECT_EQ(total, seqlen) << "world_size " << n;
    }
}

INSTANTIATE_TEST_SUITE_P(All, PartitionTest, testing::ValuesIn(kAllPartitions),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

static_assert(Partition{PartitionKind::contiguous, 10, 4}.rows_of(1).global_position(0) == 3);
static_assert(Partition{PartitionKind::striped, 10, 4}.rows_of(1).size() == 3);
static_assert(Partition{PartitionKind::zigzag, 16, 4}.rows_of(0).rows_below(15) == 3);
static_assert(Partition{PartitionKind::fold, 16, 4}.rows_of(3).global_position(1) == 4);
static_assert(Partition{PartitionKind::fold, 3, 8}.rows_of(7).size() == 0);
static_assert(Partition{PartitionKind::zigzag, 10, 4}.max_rows() == 3);

// Each document by itself is dealt out as the partition deals a sequence of its length.
TEST(PartitionSpec, DocumentsAreDealtOutOneByOne) {
  const std::vector<Index> lengths = {5, 1, 12, 30, 2};
  const MaskSpec spec = MaskSpec::parse("causal+documents:5,1,12,30,2");
  const Mask mask = spec.for_seqlen(50);
  for (const PartitionKind kind : {PartitionKind::contiguous, PartitionKind::zigzag})
    for (int n = 1; n <= 6; ++n) {
      PartitionSpec partition = PartitionSpec::parse("documents:" + std::string(name_of(kind)));
      partition.deal_out(mask, n);
      const Partition dealt = partition.of(50, n);
      for (int rank = 0; rank < n; ++rank) {
        std::vector<Index> expected;
        Index begin = 0;
        for (const Index length : lengths) {
          for (Index p = 0; p < length; ++p)
            if (defined_rank(kind, p, length, n) == rank) expected.push_back(begin + p);
          begin += length;
        }
        EXPECT_EQ(positions_of(dealt.rows_of(rank)), expected) << n << " ranks, rank " << rank;
      }
    }
}

TEST(PartitionSpec, RecordedNumbersGiveTheSamePositions) {
  const std::vector<Index> numbers = {2, 3, 0, 1, 2, 4};
  PartitionSpec spec = PartitionSpec::recorded("file:any", numbers, 8, 3);
  EXPECT_EQ(spec.numbers(), numbers);
  EXPECT_EQ(spec.name(), "file:any");
  EXPECT_EQ(positions_of(spec.of(8, 3).rows_of(2)), (std::vector<Index>{0, 1, 2, 4, 5, 6, 7}));
  EXPECT_EQ(spec.of(8, 3).rows_of(1).size(), 0);
  EXPECT_THROW(static_cast<void>(spec.of(9, 3)), InputError);
  EXPECT_THROW(static_cast<void>(spec.of(8, 4)), InputError);
}

TEST(PartitionSpec, RefusesRecordedNumbersThatAreNoAssignment) {
  const std::vector<Index> cases[] = {
      {0},          {0, 7},         {0, 9},
      {3, 8},       {-1, 8},        {0, 4, 1, 5},
      {0, 8, 1, 0}, {0, 8, 1},      {0, 4, 1, -4, 0, 8},
      {0, 4, 1},    {0, INT64_MAX}, {0, 4, 1, INT64_MAX},
  };
  for (const std::vector<Index>& numbers : cases)
    EXPECT_THROW(PartitionSpec::recorded("file:any", numbers, 8, 3), InputError)
        << testing::PrintToString(numbers);
  EXPECT_THROW(PartitionSpec::recorded("file:any", {}, 8, 3), InputError);
}

TEST(Stripes, GoToTheRanksInTurn) {
  for (const Index stripe : {1, 3, 8, 50}) {
    PartitionSpec spec = PartitionSpec::parse("striped:" + std::to_string(stripe));
    spec.deal_out(MaskSpec::parse("causal").for_seqlen(23), 3);
    const Partition partition = spec.of(23, 3);
    Index positions = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const LocalRows rows = partition.rows_of(rank);
      for (Index row = 0; row < rows.size(); ++row)
        EXPECT_EQ(rows.global_position(row) / stripe % 3, rank);
      positions += rows.size();
    }
    EXPECT_EQ(positions, 23);
  }
  for (const char* text : {"striped:", "striped:0", "striped:-2", "striped:2x", "striped:1.5"})
    EXPECT_THROW(PartitionSpec::parse(text), InputError) << text;
}

}  // namespace
}  // namespace ringscope
