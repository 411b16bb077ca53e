// The model's threads: barriers, collectives, shared memory, orders; and that what a GPU would
// punish by wrong numbers or a hang is an error here, or shows.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/cuda_emulator/simt_harness.h"

namespace ringscope::cuda::model {
namespace {

TEST_F(Simt, RunsEveryThreadOfEveryBlockOnce) {
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    const dim3 grid(3, 2, 4), block(5, 3, 2);
    std::vector<int> runs(24 * 30);
    run_grid(grid, block, 0, [&] {
      EXPECT_EQ(gridDim.x * 100 + gridDim.y * 10 + gridDim.z, 324u);
      EXPECT_EQ(blockDim.x * 100 + blockDim.y * 10 + blockDim.z, 532u);
      const unsigned thread = threadIdx.x + 5 * (threadIdx.y + 3 * threadIdx.z);
      EXPECT_EQ(thread, static_cast<unsigned>(thread_in_block()));
      EXPECT_EQ(thread, static_cast<unsigned>(warp() * 32 + lane()));
      ++runs[(blockIdx.x + 3 * (blockIdx.y + 2 * blockIdx.z)) * 30 + thread];
    });
    EXPECT_EQ(runs, std::vector<int>(24 * 30, 1));
  }
}

TEST_F(Simt, BarriersThatMakeNoSense) {
  expect_error("barrier 16", 64, 0, [] { block_barrier(16, 64); });
  expect_error("48 threads", 64, 0, [] { block_barrier(1, 48); });
  expect_error("in a block of 64", 64, 0, [] { block_barrier(1, 96); });
  expect_error("others to one of", 64, 0, [] { block_barrier(1, warp() == 0 ? 64 : 32); });
  EXPECT_EQ(error_of(50, 0, [] { __syncthreads(); }), "");
  expect_error("32 threads wait at barrier 0 of 64, 32 threads wait at barrier 1", 64, 0, [] {
    if (warp() == 0) __syncthreads();
    if (warp() == 1) block_barrier(1, 64);
  });
}

TEST_F(Simt, DeadlocksSayWhoWaits) {
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    EXPECT_EQ(error_of(128, 0,
                       [] {
                         if (threadIdx.x % 50 == 0) __syncthreads();
                       }),
              "block (0,0,0): deadlock: 3 threads wait at barrier 0 of 128, 125 have ended");
    EXPECT_EQ(error_of(64, 0,
                       [] {
                         if (warp() == 1) {
                           __syncwarp(lane() < 8 ? 0x1ffu : 0xffffff80u);
                         } else if (lane() == 0) {
                           wait_until("the full barrier", [] { return false; });
                         }
                       }),
              "block (0,0,0): deadlock: 1 thread waits for the full barrier, 8 threads wait at "
              "__syncwarp of warp 1 (mask 000001ff), 24 threads wait at __syncwarp of warp 1 "
              "(mask ffffff80), 31 have ended")
        << "lanes 7 and 8 are in both masks";
  }
}

TEST_F(Simt, SharedMemoryIsPoisonedForEveryBlock) {
  for (const std::size_t bytes : {4u, 100u, 1024u, 227u * 1024u}) {
    run_grid(3, 32, bytes, [&] {
      EXPECT_EQ(shared_size(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shared_bytes()) % 1024, 0u);
      if (lane() != 0) return;
      std::size_t poisoned = 0;
      for (std::size_t i = 0; i < bytes; ++i) poisoned += shared_bytes()[i] == 0xff;
      EXPECT_EQ(poisoned, bytes);
      std::memset(shared_bytes(), 0, bytes);
    });
  }
}

TEST_F(Simt, WritesPastSharedMemoryAreFound) {
  expect_error("byte at 100 of shared memory was written; shared memory has 100", 32, 100, [] {
    if (lane() == 9) shared_bytes()[100] = 1;
  });
  expect_error("at 1123", 32, 100, [] { shared_bytes()[1123] = 1; });
  expect_error("3 before", 32, 100, [] { shared_bytes()[-3] = 1; });
  expect_error(
      "block (2,0,0)", 32, 0,
      [] {
        if (blockIdx.x == 2) shared_bytes()[0] = 1;
      },
      4);
}

TEST_F(Simt, ExceptionsEndTheGridAndUnwindAllThreads) {
  struct Counted {
    int& living;
    explicit Counted(int& l) : living(l) { ++living; }
    ~Counted() { --living; }
  };
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    int living = 0, passed = 0;
    EXPECT_THROW(run_grid(1, 96, 0,
                          [&] {
                            const Counted counted(living);
                            __syncwarp();
                            if (threadIdx.x == 70) throw std::runtime_error("mine");
                            __syncthreads();
                            ++passed;
                          }),
                 std::runtime_error);
    EXPECT_EQ(living, 0);
    EXPECT_EQ(passed, 0);
    int begun = 0;
    EXPECT_NE(error_of(64, 0,
                       [&] {
                         ++begun;
                         throw ModelError("trapped");
                       }),
              "");
    EXPECT_EQ(begun, 1) << "the others need not begin";
    expect_error("block (0,0,0), thread (40,0,0): trapped", 64, 0, [] {
      if (threadIdx.x == 40) throw ModelError("trapped");
      __syncthreads();
    });
  }
}

// Destructors that wait do not keep a failed block from ending.
TEST_F(Simt, NothingWaitsWhileUnwinding) {
  struct Waits {
    ~Waits() {
      __syncthreads();
      __syncwarp();
      wait_until("never", [] { return false; });
    }
  };
  expect_error("trapped", 64, 0, [] {
    const Waits waits;
    if (threadIdx.x == 5) throw ModelError("trapped");
    __syncthreads();
    throw ModelError("trapped");
  });
}

// 224 threads wait for what the last warp does after some rounds, in each of which all could be asked.
TEST_F(Simt, OneIsAskedForAllThatWaitForTheSame) {
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    int asked = 0, gone_on = 0;
    bool is_open = false;
    run_grid(1, 256, 0, [&] {
      if (warp() < 7) {
        const auto ready = [&] { return ++asked > 0 && is_open; };
        wait_until("the door", ready, &is_open);
        ++gone_on;
      } else {
        for (int round = 0; round < 10; ++round) __syncwarp();
        is_open = true;
      }
    });
    EXPECT_EQ(gone_on, 224);
    EXPECT_LT(asked, 3000);
  }
}

TEST_F(Simt, SchedulesOrderBlocksAndThreads) {
  const auto order_of = [](const Schedule& schedule) {
    set_schedule(schedule);
    std::vector<unsigned> order;
    run_grid(4, 64, 0, [&] { order.push_back(blockIdx.x * 64 + threadIdx.x); });
    return order;
  };
  std::vector<unsigned> ascending(256);
  for (unsigned i = 0; i < 256; ++i) ascending[i] = i;
  EXPECT_EQ(order_of({ThreadOrder::ascending, true, 1}), ascending);
  EXPECT_EQ(order_of({ThreadOrder::descending, true, 1}),
            std::vector<unsigned>(ascending.rbegin(), ascending.rend()));
  std::set<std::vector<unsigned>> shuffled;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto order = order_of({ThreadOrder::shuffled, true, seed});
    EXPECT_EQ(order, order_of({ThreadOrder::shuffled, true, seed}));
    EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), ascending.begin()));
    shuffled.insert(order);
  }
  EXPECT_EQ(shuffled.size(), 8u);
}

TEST_F(Simt, OnlyInKernels) {
  EXPECT_THROW(shared_bytes(), ModelError);
  EXPECT_THROW(__syncthreads(), ModelError);
  EXPECT_FALSE(in_kernel());
  run_grid(1, 1, 0, [] { EXPECT_TRUE(in_kernel()); });
  expect_error("cannot start", 1, 0, [] { run_grid(1, 1, 0, [] {}); });
  EXPECT_FALSE(in_kernel()) << "after a failure";
}

}  // namespace
}  // namespace ringscope::cuda::model
