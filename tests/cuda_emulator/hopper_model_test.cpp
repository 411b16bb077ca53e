// The model of Hopper's own instructions: that it does what the PTX ISA says, as late as that
// allows, and objects to misuse.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "cuda/base/check.h"
#include "cuda/base/tensor_map.h"
#include "cuda/emulator/simt.h"
#include "cuda/ptx/barrier.h"
#include "cuda/ptx/handover.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "tests/cuda_emulator/simt_harness.h"

namespace ringscope::cuda {
namespace hopper_model_test {

using model::ThreadOrder;

constexpr int kShared = 128 * 1024;

void run_block(int threads, const std::function<void()>& kernel) {
  model::run_grid(1, dim3(static_cast<unsigned>(threads)), kShared, kernel);
}

// A block of `threads` threads ends with a ModelError that says `part`; empty: it ends well.
void expect_complaint(const std::string& part, int threads, const std::function<void()>& kernel) {
  model::expect_error(part, dim3(static_cast<unsigned>(threads)), kShared, kernel);
}

class HopperModel : public testing::TestWithParam<bool> {
 protected:
  HopperModel() { model::set_schedule({ThreadOrder::shuffled, GetParam(), 3}); }
  ~HopperModel() override { model::set_schedule({}); }
  bool late() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(AsyncLate, HopperModel, testing::Bool());

template <class T>
T& shared_at(int byte) {
  return *reinterpret_cast<T*>(model::shared_bytes() + byte);
}

void init_one(ptx::Barrier& barrier, int arrivals) {
  if (threadIdx.x == 0) {
    ptx::barrier_init(barrier, arrivals);
    ptx::fence_barrier_init();
  }
  model::block_barrier(0, static_cast<int>(blockDim.x));
}

TEST_P(HopperModel, BarrierMisuse) {
  expect_complaint("not initialised", 1, [] { ptx::barrier_arrive(shared_at<ptx::Barrier>(0)); });
  expect_complaint("an mbarrier of 8 bytes at", 1,
                   [] { init_one(shared_at<ptx::Barrier>(kShared), 1); });
  const auto expect_with_barrier = [](const std::string& part,
                                      const std::function<void(ptx::Barrier&)>& kernel) {
    expect_complaint(part, 1, [&] {
      auto& barrier = shared_at<ptx::Barrier>(0);
      init_one(barrier, 1);
      kernel(barrier);
    });
  };
  // Nobody arrives.
  expect_with_barrier("phase of parity 0",
                      [](ptx::Barrier& barrier) { ptx::barrier_wait(barrier, 0); });
  // The bytes never come.
  expect_with_barrier("phase of parity 0", [](ptx::Barrier& barrier) {
    ptx::barrier_arrive_expecting(barrier, 64);
    ptx::barrier_wait(barrier, 0);
  });
  // All have arrived, bytes are still to come, and one more arrives.
  expect_with_barrier("one arrival more", [](ptx::Barrier& barrier) {
    ptx::barrier_arrive_expecting(barrier, 64);
    ptx::barrier_arrive(barrier);
  });
}

TEST_P(HopperModel, NamedBarriersTakeArrivals) {
  int before = 0;
  run_block(96, [&] {
    if (threadIdx.x < 32) {
      ++before;
      ptx::named_barrier_arrive(3, 64);
    } else if (threadIdx.x < 64) {
      ptx::named_barrier_sync(3, 64);
      EXPECT_EQ(before, 32);
    }
  });
  expect_complaint("barrier 3", 64, [] {
    if (threadIdx.x < 32) ptx::named_barrier_sync(3, 64);
  });
}

// 3 heads of 10 rows x 128; element (head, row, column) is its number.
struct Source {
  static constexpr int kHeads = 3, kRows = 10, kHeadDim = 128;
  std::vector<std::uint16_t> values;
  Source() : values(kHeads * kRows * kHeadDim) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i + 1);
  }
};

TEST_P(HopperModel, BoxesAreSwizzledPanelsAndEndWithTheTensor) {
  const Source source;
  const int box_rows = 16, first_row = 4, head = 1;
  const TensorMap map =
      make_tensor_map(source.values.data(), Source::kHeads, Source::kRows, Source::kHeadDim, 16);
  run_block(32, [&] {
    auto& full = shared_at<ptx::Barrier>(0);
    auto* const tile = &shared_at<std::uint16_t>(1024);
    init_one(full, 1);
    if (threadIdx.x == 0) {
      ptx::barrier_arrive_expecting(full, box_rows * Source::kHeadDim * 2);
      ptx::tma_load(tile, map, 0, first_row, 0, head, full);
      EXPECT_EQ(tile[0], late() ? 0xffff : source.values[(head * 10 + first_row) * 128]);
    }
    ptx::barrier_wait(full, 0);
    for (int row = 0; row < box_rows; ++row)
      for (int column = 0; column < Source::kHeadDim; ++column) {
        // Panel, row, 16-byte unit XOR row mod 8, element.
        const int place = column / 64 * box_rows * 64 + row * 64 +
                          ((column % 64 / 8) ^ (row % 8)) * 8 + column % 8;
        const bool exists = first_row + row < Source::kRows;
        const std::uint16_t expected =
            exists ? source.values[(head * 10 + first_row + row) * 128 + column] : 0;
        ASSERT_EQ(tile[place], expected) << row << " " << column;
      }
  });
}

TEST_P(HopperModel, CopyMisuse) {
  const Source source;
  const TensorMap map =
      make_tensor_map(source.values.data(), Source::kHeads, Source::kRows, Source::kHeadDim, 16);
  const auto copy_to = [](int byte, const TensorMap& by) {
    return [byte, &by] {
      auto& full = shared_at<ptx::Barrier>(0);
      init_one(full, 1);
      ptx::barrier_arrive_expecting(full, 4096);
      ptx::tma_load(&shared_at<unsigned char>(byte), by, 0, 0, 0, 0, full);
      ptx::barrier_wait(full, 0);
    };
  };
  expect_complaint("", 1, copy_to(1024, map));
  expect_complaint("not a multiple of 128", 1, copy_to(1024 + 64, map));
  expect_complaint("a copied box", 1, copy_to(kShared - 1024, map));
  expect_complaint("made without a fence_barrier_init", 32, [&map] {
    auto& full = shared_at<ptx::Barrier>(0);
    if (threadIdx.x == 0) ptx::barrier_init(full, 1);
    __syncwarp();
    if (threadIdx.x != 0) ptx::fence_barrier_init();  // of another's barrier: in vain
    __syncwarp();
    if (threadIdx.x != 0) return;
    ptx::tma_load(&shared_at<unsigned char>(1024), map, 0, 0, 0, 0, full);
  });
  const TensorMap none;
  expect_complaint("tensor map of 0 dimensions", 1, copy_to(1024, none));
  EXPECT_THROW(make_tensor_map(source.values.data() + 1, 1, 8, 64, 8), CudaError);
  EXPECT_THROW(make_tensor_map(source.values.data(), 1, 8, 64, 257), CudaError);
}

TEST_P(HopperModel, AdditionsMisused) {
  alignas(16) float sums[32] = {};
  const TensorMap map = make_tensor_map(sums, 1, 1, 32, 1, sizeof(float));
  const TensorMap halves = make_tensor_map(sums, 1, 1, 64, 1);
  const auto add = [](const TensorMap& by, int place, bool commit, bool wait) {
    return [&by, place, commit, wait] {
      ptx::tma_add(by, &shared_at<float>(place), 0, 0, 0, 0);
      if (commit) ptx::bulk_commit();
      if (wait) ptx::bulk_wait();
    };
  };
  expect_complaint("", 1, add(map, 0, true, true));
  expect_complaint("not a multiple of 128", 1, add(map, 64, true, true));
  expect_complaint("other values than f32", 1, add(halves, 0, true, true));
  expect_complaint("ends with bulk writes", 1, add(map, 0, false, true));
  expect_complaint("ends with bulk writes", 1, add(map, 0, true, false));
}

// One thread stores what it loaded, tells another block so, and reads it back.
TEST_P(HopperModel, MemoryHandedOver) {
  alignas(16) std::array<float, 8> from{1, 2, 3, 4}, to{};
  int turn = 0;
  const auto hand_over = [&](bool wait, bool fence) {
    return [&, wait, fence] {
      auto& full = shared_at<ptx::Barrier>(0);
      init_one(full, 1);
      ptx::barrier_arrive_expecting(full, 16);
      ptx::bulk_load(&shared_at<float>(1024), from.data(), 16, full);
      ptx::barrier_wait(full, 0);
      ptx::bulk_store(to.data(), &shared_at<float>(1024), 16);
      EXPECT_EQ(to[3], 0);
      ptx::bulk_commit();
      if (wait) ptx::bulk_wait();
      ptx::count_memory_turn(&turn);
      EXPECT_EQ(to[3], 4);
      ptx::await_memory_turn(&turn, 1);
      if (fence) ptx::fence_proxy_async_global();
      ptx::barrier_arrive_expecting(full, 16);
      ptx::bulk_load(&shared_at<float>(1024), to.data(), 16, full);
      ptx::barrier_wait(full, 1);
      to[3] = 0;
      turn = 0;
    };
  };
  expect_complaint("", 1, hand_over(true, true));
  expect_complaint("before its bulk writes have ended", 1, hand_over(false, true));
  to[3] = 0;
  expect_complaint("without a fence_proxy_async_global", 1, hand_over(true, false));
}

// One product, 64 x kColumns x 16, with operands of small whole numbers, so that sums are exact.
constexpr int kColumns = 128, kATile = 0, kBTile = 32 * 1024;

float a_value(int row, int k) { return static_cast<float>((row * 5 + k * 3) % 7 - 3); }
float b_value(int k, int column) { return static_cast<float>((k * 11 + column * 2) % 9 - 4); }

// Writes element (row, column) of a swizzled panel at `byte`.
void put(int byte, int row, int column, float value) {
  const int place = byte + row * 128 + ((column / 8) ^ (row % 8)) * 16 + column % 8 * 2;
  ptx::store_for_async(shared_at<bf16>(place), bf16::from_float(value));
}

// By the block's first thread.
void fill_operands(bool a_mn, bool b_mn) {
  for (int k = 0; k < 16; ++k) {
    for (int row = 0; row < 64; ++row)
      a_mn ? put(kATile, k, row, a_value(row, k)) : put(kATile, row, k, a_value(row, k));
    for (int column = 0; column < kColumns; ++column)
      b_mn ? put(kBTile + column / 64 * 2048, k, column % 64, b_value(k, column))
           : put(kBTile, column, k, b_value(k, column));
  }
}

// 1 << 62: 128-byte swizzle; stride 1024, leading offset 2048.
std::uint64_t descriptor(int byte) {
  const std::uint32_t start = ptx::shared_address(&shared_at<unsigned char>(byte));
  return std::uint64_t{start / 16} | std::uint64_t{2048 / 16} << 16 |
         std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 62;
}

int row_of(int i) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
int column_of(int i) { return i / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2; }

float product_value(int row, int column) {
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += a_value(row, k) * b_value(k, column);
  return sum;
}

template <ptx::Major kMajorA, ptx::Major kMajorB>
void expect_shared_product(bool late) {
  run_block(256, [&] {
    if (threadIdx.x == 0) {
      fill_operands(kMajorA == ptx::Major::mn, kMajorB == ptx::Major::mn);
      ptx::fence_proxy_async();
    }
    model::block_barrier(0, 256);
    float d[kColumns / 2];
    for (float& x : d) x = 1000;
    ptx::wgmma_fence();
    ptx::wgmma_shared<bf16, kColumns, kMajorA, kMajorB>(d, descriptor(kATile), descriptor(kBTile),
                                                        false);
    ptx::wgmma_shared<bf16, kColumns, kMajorA, kMajorB>(d, descriptor(kATile), descriptor(kBTile),
                                                        true);
    ptx::wgmma_commit();
    EXPECT_EQ(d[0], late ? 1000 : 2 * product_value(row_of(0), column_of(0)));
    ptx::wgmma_wait<0>();
    for (int i = 0; i < kColumns / 2; ++i)
      ASSERT_EQ(d[i], 2 * product_value(row_of(i), column_of(i))) << threadIdx.x << " " << i;
  });
}

TEST_P(HopperModel, ProductsOfSharedOperands) {
  using ptx::Major;
  expect_shared_product<Major::k, Major::k>(late());
  expect_shared_product<Major::k, Major::mn>(late());
  expect_shared_product<Major::mn, Major::k>(late());
  expect_shared_product<Major::mn, Major::mn>(late());
}

TEST_P(HopperModel, ProductsWithRegisters) {
  run_block(128, [] {
    if (threadIdx.x == 0) {
      fill_operands(false, true);
      ptx::fence_proxy_async();
    }
    model::block_barrier(0, 128);
    std::uint32_t a[4];
    for (int i = 0; i < 4; ++i) {
      const int thread = static_cast<int>(threadIdx.x), column = i / 2 * 8 + thread % 4 * 2;
      const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
      a[i] = bf16::from_float(a_value(row, column)).bits |
             std::uint32_t{bf16::from_float(a_value(row, column + 1)).bits} << 16;
    }
    float d[kColumns / 2] = {};
    ptx::wgmma_fence();
    ptx::wgmma_registers<bf16, kColumns, ptx::Major::mn>(d, a, descriptor(kBTile), true);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    for (int i = 0; i < kColumns / 2; ++i) ASSERT_EQ(d[i], product_value(row_of(i), column_of(i)));
  });
}

using Accumulators = float (&)[kColumns / 2];

// Of what `kernel`, in place of the plain sequence of a product, does.
void expect_product_complaint(const std::string& part,
                              const std::function<void(Accumulators)>& kernel) {
  expect_complaint(part, 128, [&] {
    static thread_local std::vector<std::array<float, kColumns / 2>> all(128);
    kernel(reinterpret_cast<Accumulators>(all[threadIdx.x]));
  });
}

TEST_P(HopperModel, ProductMisuse) {
  const auto multiply = [](Accumulators d) {
    ptx::wgmma_shared<bf16, kColumns>(d, descriptor(0), descriptor(kBTile), true);
  };
  const std::pair<const char*, std::function<void(Accumulators)>> sequences[] = {
      {"without a wgmma_fence", multiply},
      {"without a wgmma_fence",
       [&](Accumulators d) {
         ptx::wgmma_fence();
         ptx::wgmma_wait<0>();
         multiply(d);
       }},
      {"did not commit",
       [&](Accumulators d) {
         ptx::wgmma_fence();
         multiply(d);
       }},
      {"did not wait for", [&](Accumulators d) {
         ptx::wgmma_fence();
         multiply(d);
         ptx::wgmma_commit();
       }}};
  for (const auto& [part, sequence] : sequences) expect_product_complaint(part, sequence);
  const std::pair<const char*, std::function<std::uint64_t()>> operands[] = {
      {"", [] { return descriptor(kBTile); }},
      {"an operand at", [] { return descriptor(kShared - 4096); }},
      {"128-byte swizzle", [] { return descriptor(kBTile) & ~(std::uint64_t{3} << 62); }},
      {"base offset", [] { return descriptor(kBTile) | std::uint64_t{1} << 49; }},
      {"different products", [] { return descriptor(threadIdx.x < 64 ? kBTile : kBTile + 1024); }}};
  for (const auto& [part, b] : operands)
    expect_product_complaint(part, [&b = b](Accumulators d) {
      ptx::wgmma_fence();
      ptx::wgmma_shared<bf16, kColumns>(d, descriptor(0), b(), true);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>();
    });
}

TEST_P(HopperModel, RegistersMoveBetweenWarpgroups) {
  expect_complaint("", 384, [] {
    if (threadIdx.x < 128)
      ptx::release_registers<24>();
    else
      ptx::claim_registers<240>();
  });
  // 24 + 2 * 248 is more than 512; nobody releases any; fewer is not more.
  expect_complaint("registers that others release", 384, [] {
    if (threadIdx.x < 128)
      ptx::release_registers<24>();
    else
      ptx::claim_registers<248>();
  });
  expect_complaint("registers that others release", 384, [] {
    if (threadIdx.x >= 128) ptx::claim_registers<240>();
  });
  expect_complaint("setmaxnreg.inc 160", 384, [] { ptx::claim_registers<160>(); });
  expect_complaint("a multiple of 8", 128, [] { model::set_max_registers(36, false); });
  expect_complaint("setmaxnreg", 256, [] {
    if (threadIdx.x < 64) ptx::release_registers<24>();
  });
}

}  // namespace hopper_model_test
}  // namespace ringscope::cuda
