// The model's cp.async, ldmatrix and mma.sync against their definitions.
#include "cuda/emulator/tensor_core.h"

#include <cstring>
#include <memory>
#include <numeric>

#include "core/base/random.h"
#include "cuda/base/launch.h"
#include "cuda/kernels/mma_tile.h"
#include "tests/cuda/ring_step_harness.h"
#include "tests/cuda_emulator/simt_harness.h"

namespace ringscope::cuda::model {
namespace {

class TensorCoreModel : public Simt {};

// Four 8 x 8 squares whose rows lie at random places.
struct Squares {
  alignas(16) std::uint16_t rows[32][8];
};

TEST_F(TensorCoreModel, LdmatrixFollowsItsDefinition) {
  std::vector<int> place(32);
  std::iota(place.begin(), place.end(), 0);
  for (int n = 32; n > 1; --n) std::swap(place[n - 1], place[mix64(n) % n]);
  const auto value = [](int square, int row, int column) {
    return static_cast<std::uint16_t>(1000 * square + 10 * row + column);
  };
  for (const bool transposed : {false, true}) {
    expect_error("", 32, sizeof(Squares), [&] {
      Squares& shared = shared_memory<Squares>();
      const int lane = threadIdx.x;
      for (int column = 0; column < 8; ++column)
        shared.rows[place[lane]][column] = value(lane / 8, lane % 8, column);
      __syncwarp();
      std::uint32_t r[4] = {};
      ldmatrix_x4(r, shared.rows[place[lane]], transposed);
      for (int square = 0; square < 4; ++square)
        for (int half = 0; half < 2; ++half) {
          const int across = lane / 4, along = 2 * (lane % 4) + half;
          EXPECT_EQ(r[square] >> (16 * half) & 0xffff,
                    transposed ? value(square, along, across) : value(square, across, along));
        }
    });
  }
}

TEST_F(TensorCoreModel, LdmatrixRefusesBadAddresses) {
  for (const auto& [offset, part] : {std::pair{0, ""},
                                     {496, ""},
                                     {8, "not a multiple of 16"},
                                     {512, "of shared memory, which has"},
                                     {-16, "of shared memory, which has"}})
    expect_error(part, 32, 512, [offset = offset] {
      std::uint32_t r[4];
      ldmatrix_x4(r, shared_bytes() + offset, false);
    });
}

TEST_F(TensorCoreModel, CountsBankConflicts) {
  const auto conflicts_with = [](int row_bytes) {
    const std::int64_t before = bank_conflicts();
    EXPECT_EQ(error_of(32, 16 * 256,
                       [&] {
                         std::uint32_t r[4];
                         const mma::SquareRow mine = mma::down_then_right(threadIdx.x);
                         ldmatrix_x4(r, shared_bytes() + mine.row * row_bytes + 16 * mine.half,
                                     false);
                       }),
              "");
    return bank_conflicts() - before;
  };
  EXPECT_EQ(conflicts_with(128), 4 * 7);  // every row in the same banks
  EXPECT_EQ(conflicts_with(256), 4 * 7);
  EXPECT_EQ(conflicts_with(64), 4 * 3);  // every other row
  EXPECT_EQ(conflicts_with(144), 0);     // padded
  EXPECT_EQ(conflicts_with(0), 0);       // one address for all
}

// D = A B + C, with fragments filled and read by the closed forms of mma_layout.h.
template <class Element>
void expect_plain_product(bool integers) {
  std::uint64_t drawn = 0;
  const auto draw = [&] {
    const auto x = static_cast<float>(mix64(++drawn) % 2001) / 1000 - 1;
    return Element::from_float(integers ? std::round(8 * x) : x);
  };
  Element a[16][16], b[16][8];
  float c[16][8];
  for (auto& row : a)
    for (Element& x : row) x = draw();
  for (auto& row : b)
    for (Element& x : row) x = draw();
  for (auto& row : c)
    for (float& x : row) x = draw().to_float();
  expect_error("", 32, 0, [&] {
    const int lane = threadIdx.x;
    std::uint32_t a_regs[4], b_regs[2];
    float d[4];
    for (int r = 0; r < 4; ++r) {
      const Element* pair = &a[mma::a_row(lane, r)][mma::a_k(lane, r)];
      a_regs[r] = pair[0].bits | std::uint32_t{pair[1].bits} << 16;
    }
    for (int r = 0; r < 2; ++r) {
      const int k = mma::b_k(lane, r), column = mma::b_column(lane);
      b_regs[r] = b[k][column].bits | std::uint32_t{b[k + 1][column].bits} << 16;
    }
    for (int i = 0; i < 4; ++i) d[i] = c[mma::c_row(lane, i)][mma::c_column(lane, i)];
    ptx::mma_m16n8k16<Element>(d, a_regs, b_regs[0], b_regs[1]);
    for (int i = 0; i < 4; ++i) {
      const int row = mma::c_row(lane, i), column = mma::c_column(lane, i);
      double sum = c[row][column];
      for (int k = 0; k < 16; ++k)
        sum += static_cast<double>(a[row][k].to_float()) * b[k][column].to_float();
      if (integers)
        EXPECT_EQ(d[i], sum);
      else
        EXPECT_NEAR(d[i], sum, 17 * 17 * 0x1p-24);  // 16 additions to a sum of at most 17
    }
  });
}

TEST_F(TensorCoreModel, MmaIsAPlainProduct) {
  for (const bool integers : {true, false}) {
    expect_plain_product<bf16>(integers);
    expect_plain_product<f16>(integers);
  }
}

struct Chunks {
  alignas(16) std::uint32_t words[4][4];
};
alignas(16) constexpr std::uint32_t kSource[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};

TEST_F(TensorCoreModel, CopiesArriveWithTheWaitForTheirGroup) {
  for (const bool late : {true, false}) {
    set_schedule({.async_late = late});
    expect_error("", 1, sizeof(Chunks), [late] {
      Chunks& shared = shared_memory<Chunks>();
      const std::uint32_t before = late ? 0xffffffffu : 1, other = late ? 0xffffffffu : 5;
      cp_async_16(shared.words[0], kSource[0], true);
      cp_async_commit();
      cp_async_16(shared.words[1], kSource[1], true);
      cp_async_commit();
      cp_async_16(shared.words[2], kSource[0], false);
      EXPECT_EQ(shared.words[0][0], before);
      cp_async_wait(2);
      EXPECT_EQ(shared.words[0][0], before);
      cp_async_wait(1);
      EXPECT_EQ(std::memcmp(shared.words[0], kSource[0], 16), 0);
      EXPECT_EQ(shared.words[1][0], other);
      cp_async_wait(0);  // not for the third copy, which is in no group yet
      EXPECT_EQ(std::memcmp(shared.words[1], kSource[1], 16), 0);
      EXPECT_EQ(shared.words[2][0], late ? 0xffffffffu : 0);
      cp_async_commit();
      cp_async_wait(0);
      for (const std::uint32_t word : shared.words[2]) EXPECT_EQ(word, 0u);
    });
  }
}

TEST_F(TensorCoreModel, CopiesThatNobodyWaitedForAreAnError) {
  for (const bool commits : {true, false})
    for (const bool late : {true, false}) {
      set_schedule({.async_late = late});
      const std::string error = error_of(64, sizeof(Chunks), [commits] {
        if (threadIdx.x != 33) return;
        cp_async_16(shared_memory<Chunks>().words[0], kSource, true);
        if (commits) cp_async_commit();
      });
      EXPECT_NE(error.find("thread (33,0,0)"), std::string::npos) << error;
      EXPECT_NE(error.find("under way"), std::string::npos) << error;
    }
  // Nor do they haunt the next block on the same thread.
  EXPECT_EQ(error_of(64, 0, [] { cp_async_wait(0); }), "");
}

TEST_F(TensorCoreModel, CopiesToOrFromBadAddressesAreErrors) {
  for (const auto& [to, from, part] : {std::tuple{16, 16, ""},
                                       {4, 0, "not a multiple of 16"},
                                       {0, 8, "not a multiple of 16"},
                                       {int{sizeof(Chunks)}, 0, "of shared memory, which has"}})
    expect_error(part, 1, sizeof(Chunks), [to = to, from = from] {
      cp_async_16(shared_bytes() + to, reinterpret_cast<const char*>(kSource) + from, true);
      cp_async_commit();
      cp_async_wait(0);
    });
  expect_error("source lies in shared memory", 1, sizeof(Chunks),
               [] { cp_async_16(shared_bytes(), shared_bytes() + 16, true); });
}

// Sums as tensor cores make them: within their bound, and by more than f32 rounds below the exact sum
// where many terms are positive.
TEST(TruncatedSums, StayWithinTheirBound) {
  for (const int count : {4, 16, 128, 16384})
    for (const bool positive : {false, true}) {
      const auto value = [&](int i) {
        const double random = unit_interval(random_bits(17, 0, static_cast<std::uint64_t>(i)));
        return round_to(DType::bf16, static_cast<float>(positive ? random : 2 * random - 1));
      };
      std::vector<float> a, b;
      double exact = value(0), magnitude = std::abs(exact);
      for (int k = 1; k <= count; ++k) {
        a.push_back(value(2 * k));
        b.push_back(value(2 * k + 1));
        exact += double{a.back()} * b.back();
        magnitude += std::abs(double{a.back()} * b.back());
      }
      const float sum = truncated_sum(value(0), a.data(), b.data(), count);
      EXPECT_LE(std::abs(sum - exact), kTruncation * count * magnitude) << count;
      if (positive && count > 128) {
        EXPECT_LE(sum, (1 - 0x1p-20) * exact) << "nothing was dropped";
      }
    }
  const float one[] = {1, 0, 0, 0}, ones[] = {1, 1, 1, 1},
              tiny[] = {0x1p-24f, 0x1p-24f, 0x1p-24f, 0};
  EXPECT_EQ(truncated_sum(1, tiny, ones, 4), 1) << "below the last bit";
  EXPECT_EQ(truncated_sum(-3, one, one, 4), -2);
  EXPECT_TRUE(std::isnan(truncated_sum(NAN, one, one, 4)));
}

// The tolerances of the tests hold for all kernels that use tensor cores, where these truncate.
TEST(TruncatedSums, LeaveKernelsWithinTheirTolerances) {
  set_sums(Sums::truncated);
  const std::shared_ptr<void> reset(nullptr, [](void*) { set_sums(Sums::one_by_one); });
  for (const Kernel* kernel : {&tensor_cores_kernel, &hopper_kernel, &hopper_overlap_kernel,
                               &backward_tensor_cores_kernel, &backward_one_pass_kernel})
    for (const DType dtype : {DType::bf16, DType::f16})
      expect_matches_oracle(*kernel, {.heads = 1,
                                      .seqlen = 200,
                                      .head_dim = dtype == DType::bf16 ? 128 : 64,
                                      .mask = "causal",
                                      .partition = PartitionKind::striped,
                                      .world_size = 2,
                                      .dtype = dtype});
}

}  // namespace
}  // namespace ringscope::cuda::model
