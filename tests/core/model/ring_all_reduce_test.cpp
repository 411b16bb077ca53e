#include "core/model/replica.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/core/base/thrown.h"
#include "tests/core/model/model_case.h"

namespace ringscope {
namespace {

struct Array {
  Array(Index size, Communicator& inner)
      : comm(inner),
        reduction(size, inner.world_size(), nullptr),
        values(static_cast<std::size_t>(size)) {}

  WireCounter comm;
  RingAllReduce reduction;
  std::vector<float> values;
};

// Integers, which add up exactly, whatever the order.
TEST(RingAllReduce, AddsUpOnEveryRankAndSendsWhatTheFormulaSays) {
  for (int world_size = 1; world_size <= 5; ++world_size)
    for (const Index size : {1, 4, 5, 60, 61, 3 * (1 << 18) + 1}) {
      if (size > 100 && world_size != 2) continue;  // chunks of several pieces
      const auto ranks = run_rank_threads(
          world_size, [&](Communicator& comm) { return std::make_unique<Array>(size, comm); },
          [&](Array& mine) {
            for (Index i = 0; i < size; ++i)
              mine.values[i] = static_cast<float>((mine.comm.rank() + 1) * 100 + i);
            mine.reduction.add_up(mine.comm, mine.values.data());
          });
      Index sent = 0;
      for (const auto& rank : ranks) {
        for (Index i = 0; i < size; ++i)
          ASSERT_EQ(rank->values[i], 50 * world_size * (world_size + 1) + world_size * i)
              << size << " values, rank " << rank->comm.rank() << " of " << world_size;
        const Index mine = rank->comm.sent().bytes;
        EXPECT_EQ(mine, RingAllReduce::bytes_sent(size, world_size, rank->comm.rank()));
        sent += mine;
      }
      EXPECT_EQ(sent, 2 * (world_size - 1) * size * 4);  // 2 (N-1)/N of the array a rank
    }
}

TEST(RingAllReduce, APeerThatFailsEndsIt) {
  const auto run = [] {
    run_rank_threads(
        3, [](Communicator& comm) { return std::make_unique<Array>(10, comm); },
        [](Array& mine) {
          if (mine.comm.rank() == 1) throw std::runtime_error("no more");
          mine.reduction.add_up(mine.comm, mine.values.data());
        });
  };
  EXPECT_EQ(run_error_of(run), "rank 1, step -1: no more");
}

}  // namespace
}  // namespace ringscope
