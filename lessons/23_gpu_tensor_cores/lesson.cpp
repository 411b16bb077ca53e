// # The GPU ladder II: register tiles and tensor cores
// > The larger the rectangle of results that one instruction or thread keeps, the fewer bytes a product
// > needs. Tensor cores multiply whole matrices, and then threads only have to supply them.
//
// **You know** from lesson 22 that a value which was fetched should serve many products, and that
// threads wait for each other at barriers. **You will see** results kept in registers; one instruction
// that makes thousands of products, on the model of a GPU; and how its operands come in time.
//
// ## Register tiles
//
// In lesson 22 a thread that owned four rows read each key once for all of them. It can own several
// keys as well: for r rows and k keys it reads r + k numbers in each of the d columns, and makes r · k
// products. The results stay in its registers: they are a **register tile**. A tile of 1 x 1 reads 8
// bytes per product, one of 8 x 8 reads 4 (8 + 8) / 64 = 1. But it takes 64 of a thread's 255 registers,
// so tiles can't keep growing.
//
// ## One instruction, one matrix
//
// A *tensor core* is a unit of an SM that multiplies small matrices of 16-bit numbers
// (bf16: the upper half of an f32, lesson 17) and adds up in f32. The instruction `mma` multiplies
// A, 16 x 16, by B, 16 x 8. A whole warp issues it: each of the 32 threads holds some values of A,
// B and the result C in its registers. `a_row` to `c_column` give their positions:
#include <cuda_runtime.h>

#include "lessons/book/gpu.h"

namespace ringscope::lessons::chapter_23 {
//-
// Return whether multiply(a, b, c), run by the 32 threads of a warp, computes c [16, 8] = a [16,
// 16] b [16, 8] for small whole numbers, whose sums are exact.
template <class Multiply>
bool multiplies(const Multiply& multiply) {
  std::vector<float> a(16 * 16), b(16 * 8), c(16 * 8, NAN), exact(16 * 8, 0.0f);
  for (int i = 0; i < 16 * 16; ++i) a[i] = static_cast<float>(i * 7 % 11 - 5);
  for (int i = 0; i < 16 * 8; ++i) b[i] = static_cast<float>(i * 5 % 9 - 4);
  for (int i = 0; i < 16 * 8; ++i)
    for (int k = 0; k < 16; ++k) exact[i] += a[i / 8 * 16 + k] * b[k * 8 + i % 8];
  cuda::model::run_grid(1, 32, 0, [&] { multiply(a.data(), b.data(), c.data()); });
  return c == exact;
}

// Shorten an outcome to "right", "wrong sums", "all wait for ever", or "barrier overrun" (more
// arrivals than a phase takes).
static std::string in_few_words(const std::string& outcome) {
  if (outcome.find("deadlock") != std::string::npos) return "all wait for ever";
  if (outcome.find("one arrival more") != std::string::npos) return "barrier overrun";
  return outcome;
}
//+

using namespace cuda;

void multiply(const float* a, const float* b, float* c) {  // by the 32 threads of a warp
  const int lane = threadIdx.x;
  std::uint32_t a_mine[4], b_mine[2];
  for (int r = 0; r < 4; ++r) {
    const float* const pair = a + mma::a_row(lane, r) * 16 + mma::a_k(lane, r);
    a_mine[r] = ptx::pack<bf16>(pair[0], pair[1]);
  }
  for (int r = 0; r < 2; ++r) {
    const float* const pair = b + mma::b_k(lane, r) * 8 + mma::b_column(lane);
    b_mine[r] = ptx::pack<bf16>(pair[0], pair[8]);
  }
  float c_mine[4] = {};
  ptx::mma_m16n8k16<bf16>(c_mine, a_mine, b_mine[0], b_mine[1]);
  for (int i = 0; i < 4; ++i) c[mma::c_row(lane, i) * 8 + mma::c_column(lane, i)] = c_mine[i];
}

void lesson_23(Page& page) {
  // The matrix shows which thread holds which value of C's upper half. The lower half has the same
  // pattern:
  //-
  std::vector<double> holders(8 * 8, -1.0);
  bool as_a = true;  // whether C's values lie where those in the left half of A do
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      if (i < 2) holders[mma::c_row(lane, i) * 8 + mma::c_column(lane, i)] = lane;
      as_a &= mma::c_row(lane, i) == mma::a_row(lane, i / 2) &&
              mma::c_column(lane, i) == mma::a_k(lane, i / 2) + i % 2;
    }
  page.print(matrix(holders, 8, 0));

  // A thread's values of C lie where its values of A's left half do. Two results C of Q Kᵀ, side by
  // side, therefore are the A of the next product, P V, after softmax: no value leaves its thread.
  page.predict("How many products does the one instruction make?", "", 16 * 8 * 16);

  // It is the same idea again, with the rectangle spread over the registers of 32 threads, and with
  // `wgmma` (lesson 25), which Hopper GPUs have, over those of 128:
  Table sizes({"results kept", "threads", "products", "bytes of A and B", "bytes per product"});
  sizes.row("1 x 1, f32", 1, 1, 4 * 2, fixed(8, 3));
  sizes.row("8 x 8, f32", 1, 64, 4 * 16, fixed(1, 3));
  sizes.row("mma: 16 x 8", 32, 16 * 8 * 16, 2 * 16 * (16 + 8), fixed(2.0 * (16 + 8) / (16 * 8), 3));
  sizes.row("wgmma: 64 x 128", 128, 64 * 128 * 16, 2 * 16 * (64 + 128),
            fixed(2.0 * (64 + 128) / (64 * 128), 3));
  page.table(sizes);
  Drawing kept;
  const auto rectangle = [](double at, double rows, double columns, int color, const char* text) {
    return Drawing::Part{at / 168, (at + columns) / 168, color, text, rows / 168};
  };
  kept.heading("results that are kept, to scale");
  kept.strip("", {rectangle(0, 1, 1, 0, ""), rectangle(8, 8, 8, 1, ""), rectangle(24, 16, 8, 2, ""),
                  rectangle(40, 64, 128, 3, "64 x 128")});
  kept.bars("bytes of A and B per product", {"1 x 1", "8 x 8", "16 x 8", "64 x 128"},
            {8, 1, 2.0 * (16 + 8) / (16 * 8), 2.0 * (64 + 128) / (64 * 128)}, 3);
  page.picture("rectangles.svg", "The larger the rectangle, the fewer bytes per product", kept);

  // ## Who fetches
  //
  // Operands must come in time. Each SM of a Hopper GPU has a **TMA**, a tensor memory
  // accelerator: a thread of a running kernel asks it for a whole tile, the copy runs on its own, and
  // its bytes are counted at a barrier when they have landed. (Lesson 12's copy engines are no part of
  // an SM.) One thread does all the fetching, the *producer*; the others consume. There are
  // two buffers (lesson 6), each with two barriers: `full` tells that a tile has landed, `empty` that
  // all consumers are done.
  //
  // A barrier is used again and again. Each use is a phase, and phases are numbered 0, 1, 2 and so on:
  //
  // - A phase ends when all arrivals that it waits for have come. Then the next one begins.
  // - The barrier remembers one bit of the last phase that ended: whether its number was even (parity 0)
  //   or odd (parity 1). A wait names a parity, and returns if that was the last one to end.
  // - A new barrier looks as if an odd phase had just ended. The producer's first waits for `empty`
  //   name parity 1 and therefore return at once, as they should: the buffers are empty.
  page.picture("phases.svg", "Two buffers, six tiles: who waits for which phase of which barrier");

  //     the producer, for each tile              the consumers, for each tile
  //         1 wait until its buffer is empty         2 wait until its buffer is full
  //         announce the tile's bytes                add its numbers up
  //         start the copy                           3 arrive at the buffer's "empty"
  //-
  const auto pipeline = [](Stages<2>& shared, const TensorMap& matrix, float* sums) {
    StagePlace<2> at;  // stage 0, 1, 0, 1, ..., parity 0, 0, 1, 1, ...
    const int consumer = static_cast<int>(threadIdx.x) - 32;
    if (threadIdx.x == 0) {  // the producer
      for (int t = 0; t < 6; ++t, at.advance()) {
        wait(1, shared.empty[at.stage], at.parity ^ 1);  // is over already at the first round
        ptx::barrier_arrive_expecting(shared.full[at.stage], sizeof shared.tile[0]);
        ptx::tma_load(shared.tile[at.stage], matrix, 0, t * kTileRows, 0, shared.full[at.stage]);
      }
    } else if (consumer >= 0) {  // 32 consumers; all they do is to add up
      for (int t = 0; t < 6; ++t, at.advance()) {
        wait(2, shared.full[at.stage], at.parity);
        for (int i = consumer; i < kTileValues; i += 32)
          sums[consumer] += shared.tile[at.stage][i].to_float();
        arrive(3, shared.empty[at.stage]);
      }
    }
  };

  //+
  // All three numbered calls are needed. Six tiles go through two buffers to 32 consumers, and each
  // call is left out in turn. The model lets copies land as late as barriers allow, or
  // at once. (A barrier is overrun if more arrive in a phase than it counts, as when the producer
  // doesn't wait and announces a second tile for a buffer whose first has not landed.)
  //-
  const auto ends = [&](int number, bool late) {
    left_out = number;
    return outcome_of<2>(pipeline, 6, 32, {.async_late = late});
  };
  Table missing({"left out", "copies land late", "copies land at once"});
  const char* const names[] = {"nothing", "1, wait until empty", "2, wait until full", "3, done"};
  bool needed = true;
  for (int n = 0; n < 4; ++n) {
    missing.row(names[n], in_few_words(ends(n, true)), in_few_words(ends(n, false)));
    for (const bool late : {false, true}) needed &= (ends(n, late) == "right") == (n == 0);
  }
  page.table(missing);

  // ## On paper
  page.predict("A register tile of 4 x 16 in f32: how many bytes per product?", "",
               4 * (4 + 16) / (4.0 * 16));
  page.predict("A wgmma of 64 x 256 in bf16?", "", fixed(2 * (64 + 256) / (64.0 * 256), 3));

  // ## Checks
  page.check("The mma is the product of its matrices", multiplies(multiply));
  page.check("C is laid out as A is", as_a);
  page.check("The pipeline is right, and none of its three calls can be left out", needed);

  // ## Exercise
  //
  // Write a pipeline: `lessons/23_gpu_tensor_cores/exercise.h` has three buffers and 64 consumers,
  // and needs its waits. `./ringscope lesson 23 --check` tries it with early and late copies.
}

}  // namespace ringscope::lessons::chapter_23
