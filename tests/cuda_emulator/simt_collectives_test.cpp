// The model's collectives of warps and warpgroups, and CUDA's device functions.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cuda_emulator/simt_harness.h"

namespace ringscope::cuda::model {
namespace {

TEST_F(Simt, Shuffles) {
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    run_grid(1, 64, 0, [] {
      const int l = lane();
      const double mine = 100.0 * warp() + l;
      const double base = 100.0 * warp();
      EXPECT_EQ(__shfl_sync(~0u, mine, 5), base + 5);
      EXPECT_EQ(__shfl_sync(~0u, mine, 5, 8), base + (l & ~7) + 5);
      EXPECT_EQ(__shfl_sync(~0u, mine, 33), base + 1);
      EXPECT_EQ(__shfl_xor_sync(~0u, mine, 17), base + (l ^ 17));
      EXPECT_EQ(__shfl_xor_sync(~0u, static_cast<float>(l), 3, 4), static_cast<float>(l ^ 3));
    });
  }
}

TEST_F(Simt, Votes) {
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    run_grid(1, 64, 0, [] {
      EXPECT_TRUE(__any_sync(~0u, lane() == 7 && warp() == 0) == (warp() == 0));
      const unsigned mask = lane() < 16 ? 0xffffu : 0xffff0000u;
      EXPECT_TRUE((__any_sync(mask, lane() == 20) != 0) == (lane() >= 16));
    });
  }
}

// Two halves of a warp may go their own ways, with their own masks.
TEST_F(Simt, PartsOfAWarp) {
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    run_grid(1, 32, 0, [] {
      const unsigned mask = lane() < 16 ? 0xffffu : 0xffff0000u;
      for (int i = 0; i < (lane() < 16 ? 3 : 5); ++i)
        EXPECT_EQ(__shfl_xor_sync(mask, lane() + i, 1), (lane() ^ 1) + i);
      EXPECT_EQ(__shfl_sync(~0u, lane(), 20), 20);
    });
  }
  run_grid(1, 32, 0, [] {
    if (lane() < 4) {
      EXPECT_TRUE(std::isnan(__shfl_sync(0xfu, 1.0f, 9))) << "a lane outside of the mask";
    }
  });
}

TEST_F(Simt, LanesMustAgree) {
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    expect_error("__shfl_xor_sync", 32, 0,
                 [] { lane() == 3 ? __shfl_sync(~0u, 1, 0) : __shfl_xor_sync(~0u, 1, 1); });
    expect_error("bytes, while", 32, 0, [] {
      if (lane() % 2 == 0) {
        __shfl_sync(~0u, 1.0, 0);
      } else {
        __shfl_sync(~0u, 1.0f, 0);
      }
    });
    expect_error("ended", 64, 0, [] {
      if (thread_in_block() != 40) __syncwarp();
    });
    expect_error("ended", 256, 0, [] {
      if (threadIdx.x != 130) warpgroup_exchange("wgmma", nullptr, 0);
    });
  }
  set_schedule({ThreadOrder::ascending, true, 1});
  EXPECT_EQ(error_of(64, 0,
                     [] {
                       if (thread_in_block() != 40) __syncwarp();
                     }),
            "block (0,0,0), thread (40,0,0): has ended while others wait for it at __syncwarp");
  EXPECT_EQ(error_of(64, 0,
                     [] {
                       if (thread_in_block() != 32) __syncwarp();
                     }),
            "block (0,0,0), thread (33,0,0): __syncwarp: waits for thread 32, which has ended");
  EXPECT_EQ(error_of(256, 0,
                     [] {
                       if (threadIdx.x != 130) warpgroup_exchange("wgmma", nullptr, 0);
                     }),
            "block (0,0,0), thread (130,0,0): has ended while others wait for it at wgmma");
  expect_error("not in its mask", 32, 0, [] { __syncwarp(0xf); });
  expect_error("has 8 threads only", 40, 0, [] { __syncwarp(); });
  expect_error("has 64 threads only", 192, 0, [] { warpgroup_exchange("wgmma", nullptr, 0); });
  expect_error("at most 512", 32, 0, [] {
    const char big[513] = {};
    warp_exchange("big", big, 513);
  });
}

}  // namespace
}  // namespace ringscope::cuda::model
