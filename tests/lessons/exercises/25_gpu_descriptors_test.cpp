// Fields one by one, then a product on the model of a GPU.
#include "lessons/book/gpu.h"
#include "tests/lessons/exercises/exercise_test.h"

void check(Exercise& exercise) {
  using namespace ringscope;
  namespace ptx = cuda::ptx;
  const std::uint64_t all = descriptor(8192, 16384, 1024);
  exercise.equal("start", static_cast<double>(all & 0x3fff), 512);
  exercise.equal("leading offset", static_cast<double>(all >> 16 & 0x3fff), 1024);
  exercise.equal("stride", static_cast<double>(all >> 32 & 0x3fff), 64);
  exercise.equal("swizzle", static_cast<double>(all >> 62), 1);
  exercise.holds("nothing else", (all & 0x3fffc000c000c000u) == 0);
  exercise.holds("upper bits of the start are left out",
                 descriptor((1u << 18) + 4096, 16, 1024) == descriptor(4096, 16, 1024));
  exercise.equal("right values of a product", lessons::right_products([](auto& shared, float* c) {
                   std::uint64_t a = descriptor(ptx::shared_address(shared.a), 16, 1024);
                   std::uint64_t b = descriptor(ptx::shared_address(shared.b), 16, 1024);
                   float mine[32] = {};
                   ptx::wgmma_fence();
                   for (int k = 0; k < 4; ++k, a = next(a), b = next(b))
                     ptx::wgmma_shared<bf16, 64>(mine, a, b, k > 0);
                   ptx::wgmma_commit();
                   ptx::wgmma_wait<0>();
                   const int t = static_cast<int>(threadIdx.x);
                   for (int i = 0; i < 32; ++i)
                     c[cuda::accumulator_row(t, i) * 64 + cuda::accumulator_column(t, i)] = mine[i];
                 }),
                 4096);
}
