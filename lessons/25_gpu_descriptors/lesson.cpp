// # The GPU ladder IV: WGMMA and its descriptors
// > Hopper's matrix instruction reads its operands from shared memory by itself. A thread no
// > longer hands over what to multiply, but says where it lies. While the unit multiplies, the thread is free
// > to do something else.
//
// **You know** the `mma` of one warp and the TMA (lesson 23), and swizzled tiles (24). **You will see**
// the larger instruction, the 64 bits that describe an operand, what wrong ones do, and how softmax
// runs beside the products.
//
// ## 128 threads, one instruction
//
// NVIDIA's Hopper GPUs (H100, H200) have `wgmma`. Four warps issue it together; it multiplies 64 rows
// by up to 256 columns, and adds to C, which stays in the threads' registers. B comes from shared
// memory, and so may A. Nobody loads them into registers, so the instruction must be told how they lie
// there. It is told by a *descriptor*, a number of 64 bits, in which addresses and distances count
// units of 16 bytes:
//
//     bits  0-13    start: the address of the first row's first number
//     bits 16-29    leading offset: from one panel of 64 columns to the next; it isn't
//                   used if the sum runs along rows, as that of Q Kᵀ does
//     bits 32-45    stride: from eight rows to the next eight
//     bits 62-63    swizzle: 1 says that units are swizzled over rows of 128 bytes (lesson 24)
//
// It does not say how large the operand is, or of which type: the instruction does. Nor does it
// say whether it is summed along rows or columns. Q Kᵀ sums along the rows of K; P V sums down the
// columns of V, and a bit of the instruction says so. Neither is ever transposed in memory.
#include <cuda_runtime.h>

#include "lessons/book/gpu.h"

namespace ringscope::lessons::chapter_25 {
using namespace cuda;

void lesson_25(Page& page) {
  page.predict("K's tile begins at byte 8,192 of shared memory. What is in bits 0 to 13?", "", 512);

  // A tile of swizzled rows of 128 bytes has 1,024 bytes in eight rows: the stride is 64. This multiplies
  // two tiles, A Bᵀ, 64 rows of 64 numbers each. A `wgmma` sums over 16 numbers, so four are needed. From
  // one to the next the start moves by 32 bytes, inside the same swizzled rows. (`operand_descriptor`
  // puts start, leading offset and stride where they belong. In the exercise you write it, as `descriptor`.)
  Drawing bits;
  bits.heading("64 bits: start 512, stride 64, swizzle 1");
  bits.strip("", {{0, 14 / 64.0, 6, "start"},
                  {16 / 64.0, 30 / 64.0, Drawing::kQuiet},
                  {32 / 64.0, 46 / 64.0, 5, "stride"},
                  {62 / 64.0, 1, 4}});
  bits.heading("where the units of 16 bytes lie");
  for (const int row : {0, 1, 2, 7, 8}) {
    const auto cell = [row](int place) {
      return std::pair((place ^ row % 8) / 2, place ^ row % 8);
    };
    bits.strip(fmt::format("row {}", row), Drawing::cells(8, cell),
               fmt::format("byte {}", Cell::with_commas(8192 + row * kRowBytes)));
  }
  for (const int k : {0, 1, 2, 3}) bits.key(k, fmt::format("wgmma {}: start + {}", k, 32 * k));
  page.picture("bits.svg", "What the descriptor says of a tile, and what four wgmmas read", bits);

  const auto with = [](std::uint32_t stride_bytes, std::uint32_t step_bytes) {
    return [=](Operands& shared, float* c) {
      std::uint64_t a = operand_descriptor(ptx::shared_address(shared.a), 16, stride_bytes);
      std::uint64_t b = operand_descriptor(ptx::shared_address(shared.b), 16, stride_bytes);
      float mine[32] = {};
      ptx::wgmma_fence();  // the registers are ready
      for (int k = 0; k < 64; k += 16) {
        ptx::wgmma_shared<bf16, 64>(mine, a, b, /*accumulate=*/k > 0);
        a += step_bytes / 16, b += step_bytes / 16;
      }
      ptx::wgmma_commit();   // these four are a group, and run on their own
      ptx::wgmma_wait<0>();  // all but the youngest 0 groups are done
      const int t = static_cast<int>(threadIdx.x);
      for (int i = 0; i < 32; ++i)
        c[accumulator_row(t, i) * 64 + accumulator_column(t, i)] = mine[i];
    };
  };

  // What if a descriptor and the TMA disagree?
  const int right = right_products(with(1024, 32));
  const int plain_copy = right_products(with(1024, 32), /*swizzled=*/false);
  Table found({"mistake", "right values of 4,096"});
  const int wrong_stride = right_products(with(512, 32)),
            wrong_step = right_products(with(1024, 16));
  found.row("none", right);
  found.row("the copy is not swizzled", plain_copy);
  found.row("a stride of four rows", wrong_stride);
  found.row("the start moves by 8 numbers, not 16", wrong_step);
  page.table(found);

  // No mistake raises an error, because every address that is read lies in shared memory. In the second
  // line an eighth of the values is right, and not by chance. Such a value comes from a row of A and a row
  // of B whose numbers are equal mod 8. The instruction then reads the units of both in the same wrong
  // order, and the order of its terms changes no sum.
  //
  // ## Softmax beside it
  //
  // Between the two products of a tile lies softmax, and tensor cores cannot compute exp. By NVIDIA's
  // figures an SM of a Hopper GPU makes 2,048 products of 16-bit numbers per clock, but 16 exp. A tile of
  // 128 queries and 128 keys, head_dim 128, has 2 * 128 * 128 * 128 products: 2,048 clocks.
  const Guess guess = page.predict("How many clocks do its exps take?", "clocks");
  const auto products = [](double head_dim) { return 2 * 128 * 128 * head_dim / 2048; };
  const double exps = 128 * 128 / 16;
  page.answer(guess, exps);
  Table clocks({"head_dim", "products", "exp", "one after the other", "side by side", "faster"});
  for (const double d : {64, 128})
    clocks.row(d, products(d), exps, products(d) + exps, std::fmax(products(d), exps),
               fixed((products(d) + exps) / std::fmax(products(d), exps), 1));
  page.table(clocks);

  // This is the overlap of lesson 6. (The last columns are bounds, from counting clocks; nothing was
  // measured.) The ladder's seventh kernel starts two products, which run on their own: the scores of this
  // tile, and P V of the tile before, which is added to out_accum. `wgmma_wait<1>` waits for all but the
  // youngest of them: for the scores, whose softmax then runs beside P V. And two groups of consumers take
  // turns with products and softmax:
  //
  //     for each tile of keys but the first
  //         wait for this group's turn
  //         start this tile's scores; when V of the tile before is there, start out_accum += P V
  //         give the turn to the other group
  //         wait for the scores, give K's buffer back, and take their softmax
  //         wait for P V, give V's buffer back, and rescale out_accum to the new maximum
  //
  // That is kernel 07, the last of the ladder's forward pass. The backward pass has 08 (tiles), 09 (tensor
  // cores) and 11 (`wgmma`, in one pass); there is no kernel 10. A model of the GPU shows that results
  // are right, and the build fails where registers do not suffice (`cuda/ptxas_log.sh`). How fast a kernel
  // is, and why, only a GPU shows (lesson 26).
  //
  // ## On paper
  page.predict("A panel of 64 rows of 128 bytes: what is the leading offset to the next one?", "",
               64 * kRowBytes / 16);
  page.predict("head_dim 64: how many clocks do products take, and exp?", "",
               numbers({products(64), exps}, 0));

  // ## Checks
  page.equal("Without a swizzle an eighth are", plain_copy, 4096 / 8);
  page.check("With any other mistake nearly none are", wrong_stride < 400 && wrong_step < 400);
  page.equal("Eight rows of a panel are 1,024 bytes", 8 * kRowBytes, 1024);

  // ## Exercise
  //
  // Write the descriptor of an operand, and that of its next 16 numbers:
  // `lessons/25_gpu_descriptors/exercise.h`. `./ringscope lesson 25 --check` multiplies with it.
}

}  // namespace ringscope::lessons::chapter_25
