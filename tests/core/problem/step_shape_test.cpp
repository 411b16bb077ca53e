// The shape of each ring step under a causal mask. Sequences here divide evenly; N = world_size,
// c = rows a rank, i and j local rows of query and key. (What it means for balance: tests/claims.)
#include <gtest/gtest.h>

#include "core/problem/partition.h"
#include "core/problem/region.h"

namespace ringscope {
namespace {

Region causal_region(PartitionKind kind, Index seqlen, int n, int rank, int owner) {
  const Partition partition{kind, seqlen, n};
  return {Mask{.seqlen = seqlen, .causal = true}, partition.rows_of(rank),
          partition.rows_of(owner)};
}

// What a kernel needs to know of a step instead of arrays of positions.
using StepShape = bool (*)(int rank, int owner, Index c, Index i, Index j);

void expect_shape(PartitionKind kind, StepShape shape) {
  for (int n = 1; n <= 6; ++n)
    for (const Index c : {2, 4, 6, 10})
      for (int rank = 0; rank < n; ++rank)
        for (int owner = 0; owner < n; ++owner) {
          const Region region = causal_region(kind, n * c, n, rank, owner);
          for (Index i = 0; i < c; ++i)
            for (Index j = 0; j < c; ++j)
              EXPECT_EQ(region.allowed_rows(i).contains(j), shape(rank, owner, c, i, j))
                  << name_of(kind) << ", rank " << rank << " attends " << owner << " of " << n
                  << ", c " << c << ", i " << i << ", j " << j;
        }
}

TEST(StepShapes, ContiguousIsEverythingATriangleOrNothing) {
  expect_shape(PartitionKind::contiguous, [](int rank, int owner, Index, Index i, Index j) {
    return owner < rank || (owner == rank && j <= i);
  });
}

TEST(StepShapes, StripedIsATriangleWithOrWithoutItsDiagonal) {
  expect_shape(PartitionKind::striped, [](int rank, int owner, Index, Index i, Index j) {
    return owner <= rank ? j <= i : j < i;
  });
}

TEST(StepShapes, ZigzagIsATriangleOrHalfTheRectangle) {
  expect_shape(PartitionKind::zigzag, [](int rank, int owner, Index c, Index i, Index j) {
    if (owner == rank) return j <= i;
    return owner < rank ? j < c / 2 : i >= c / 2;
  });
}

TEST(StepShapes, FoldIsATriangleWhoseDiagonalDependsOnTheFold) {
  expect_shape(PartitionKind::fold, [](int rank, int owner, Index, Index i, Index j) {
    return j < i || (j == i && (i % 2 == 0 ? owner <= rank : owner >= rank));
  });
}

}  // namespace
}  // namespace ringscope
