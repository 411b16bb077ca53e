#include "core/base/buffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "core/base/dtype.h"

namespace ringscope {
namespace {

TEST(Buffer, IsAccountedFor) {
  MemoryMeter meter;
  {
    Buffer<float> a(&meter, 100);
    EXPECT_EQ(meter.current_bytes(), 400);
    {
      const Buffer<bf16> b(&meter, 50);
      EXPECT_EQ(meter.current_bytes(), 500);
    }
    EXPECT_EQ(meter.current_bytes(), 400);
    EXPECT_EQ(meter.peak_bytes(), 500);

    Buffer<float> moved(std::move(a));
    EXPECT_EQ(meter.current_bytes(), 400);
    moved = Buffer<float>(&meter, 10);
    EXPECT_EQ(meter.current_bytes(), 40);
    EXPECT_EQ(moved.size(), 10);
    moved.fill(2.5f);
    for (const float value : moved) EXPECT_EQ(value, 2.5f);
    EXPECT_EQ(meter.peak_bytes(), 500);
  }
  EXPECT_EQ(meter.current_bytes(), 0);
}

// A meter is shared by its rank's threads: the largest sum is seen, whoever reaches it.
TEST(Buffer, MeterCountsAcrossThreads) {
  MemoryMeter meter;
  const Buffer<char> base(&meter, 1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&meter] {
      for (int i = 0; i < 1000; ++i) const Buffer<char> piece(&meter, 64);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(meter.current_bytes(), 1000);
  EXPECT_GE(meter.peak_bytes(), 1064);
  EXPECT_LE(meter.peak_bytes(), 1256);
}

TEST(Buffer, StartsAlignedAsNan) {
  for (Index size = 1; size < 100; ++size)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Buffer<char>(nullptr, size).data()) % 64, 0u);
  const Buffer<float> f32s(nullptr, 3);
  for (const float value : f32s) EXPECT_TRUE(std::isnan(value));
  const Buffer<bf16> bf16s(nullptr, 3);
  for (const bf16 value : bf16s) EXPECT_TRUE(std::isnan(value.to_float()));
  const Buffer<f16> f16s(nullptr, 3);
  for (const f16 value : f16s) EXPECT_TRUE(std::isnan(value.to_float()));
}

TEST(Buffer, ImpossibleSizesThrow) {
  MemoryMeter meter;
  EXPECT_THROW(Buffer<float>(&meter, -1), std::bad_alloc);
  EXPECT_THROW(Buffer<float>(&meter, INT64_MAX / 4 + 1), std::bad_alloc);
  EXPECT_THROW(Buffer<double>(&meter, INT64_MAX), std::bad_alloc);
  const Buffer<float> none, zero(&meter, 0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(zero.begin(), zero.end());
  EXPECT_EQ(meter.peak_bytes(), 0);
}

}  // namespace
}  // namespace ringscope
