// The shape of each ring step under a causal mask, and what it means for balance. Sequences here
// divide evenly; N = world_size, c = rows a rank, i and j local rows of query and key.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/problem/partition.h"
#include "core/problem/region.h"

namespace ringscope {
namespace {

Region causal_region(PartitionKind kind, Index seqlen, int n, int rank, int owner) {
  const Partition partition{kind, seqlen, n};
  return {Mask{.seqlen = seqlen, .causal = true}, partition.rows_of(rank),
          partition.rows_of(owner)};
}

// At step t, rank r holds the keys of owner (r - t) mod n.
Index causal_pairs(PartitionKind kind, Index seqlen, int n, int rank, int step) {
  return causal_region(kind, seqlen, n, rank, (rank + n - step) % n).pairs();
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

// C21 (S3): striped work of a step is one of two triangles.
TEST(C21_StripedWork, IsATriangleWithOrWithoutDiagonal) {
  for (int n = 1; n <= 6; ++n)
    for (const Index c : {1, 2, 5, 32})
      for (int rank = 0; rank < n; ++rank)
        for (int owner = 0; owner < n; ++owner)
          EXPECT_EQ(causal_region(PartitionKind::striped, n * c, n, rank, owner).pairs(),
                    rank >= owner ? c * (c + 1) / 2 : c * (c - 1) / 2);
}

// C22 (S3): 8 tokens striped over 4 ranks. At step 2, rank 0 holds owner 2's keys, positions 2 and
// 6; its query at position 4 sees key 2 only.
TEST(C22_StripedExample, QueryFourSeesKeyTwoOnly) {
  const Region region = causal_region(PartitionKind::striped, 8, 4, 0, 2);
  EXPECT_EQ(region.queries.global_position(1), 4);
  EXPECT_EQ(region.keys.global_position(0), 2);
  EXPECT_EQ(region.allowed_rows(1), (Interval{0, 1}));
  EXPECT_EQ(region.pairs(), 1);
}

double causal_ceiling(PartitionKind kind, Index seqlen, int n) {
  double mean = 0, slowest = 0;
  for (int step = 0; step < n; ++step) {
    Index most = 0;
    for (int rank = 0; rank < n; ++rank) {
      const Index pairs = causal_pairs(kind, seqlen, n, rank, step);
      most = std::max(most, pairs);
      mean += static_cast<double>(pairs) / n;
    }
    slowest += static_cast<double>(most);
  }
  return mean / slowest;
}

// C20 (S3) sharpened: (Nc + 1) / ((2N - 1) c + 1), which tends to N / (2N - 1).
TEST(C20_ContiguousCeiling, IsNOverTwoNMinusOne) {
  for (int n = 1; n <= 8; ++n) {
    for (const Index c : {1, 3, 64})
      EXPECT_DOUBLE_EQ(causal_ceiling(PartitionKind::contiguous, n * c, n),
                       static_cast<double>(n * c + 1) / static_cast<double>((2 * n - 1) * c + 1))
          << "world_size " << n << ", c " << c;
    EXPECT_NEAR(causal_ceiling(PartitionKind::contiguous, Index{n} << 20, n), n / (2.0 * n - 1),
                1e-6)
        << "world_size " << n;
  }
}

// C19 (S1): the last rank's work over the first's is 2N - 1 for large c, not 2N.
TEST(C19_ContiguousExtremes, DifferByTwoNMinusOne) {
  const Index c = Index{1} << 20;
  for (int n = 2; n <= 8; ++n) {
    double first = 0, last = 0;
    for (int step = 0; step < n; ++step) {
      first += static_cast<double>(causal_pairs(PartitionKind::contiguous, n * c, n, 0, step));
      last += static_cast<double>(causal_pairs(PartitionKind::contiguous, n * c, n, n - 1, step));
    }
    EXPECT_NEAR(last / first, 2 * n - 1, 1e-4) << "world_size " << n;
  }
}

// C24 (S1): equal totals, and what the total does not show: equal at every single step.
TEST(C24_ZigzagAndFold, GiveEveryRankTheSameWorkAtEveryStep) {
  for (const PartitionKind kind : {PartitionKind::zigzag, PartitionKind::fold})
    for (int n = 1; n <= 8; ++n)
      for (const Index c : {2, 4, 10, 64}) {
        const Index seqlen = n * c;
        for (int rank = 0; rank < n; ++rank) {
          Index total = 0;
          for (int step = 0; step < n; ++step) {
            const Index pairs = causal_pairs(kind, seqlen, n, rank, step);
            EXPECT_EQ(pairs, step == 0 ? c * (c + 1) / 2 : c * c / 2)
                << name_of(kind) << ", rank " << rank << " of " << n << ", step " << step;
            total += pairs;
          }
          EXPECT_EQ(total * n, seqlen * (seqlen + 1) / 2) << name_of(kind) << ", world_size " << n;
        }
        EXPECT_NEAR(causal_ceiling(kind, seqlen, n), 1.0, 1e-12)
            << name_of(kind) << ", world_size " << n;
      }
}

TEST(C24_Fold, IsUnequalWithAnOddNumberOfFolds) {
  EXPECT_LT(causal_ceiling(PartitionKind::fold, 12, 4), 1.0);
}

}  // namespace
}  // namespace ringscope
