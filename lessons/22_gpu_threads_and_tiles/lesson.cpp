// # The GPU ladder I: threads and tiles
// > A GPU gives a tile to a block of threads, and a value that was fetched should serve many of
// > them.
//
// **You know** from lesson 4 that attention is a grid of tiles, and that taller ones read K and V
// less often. **You will see** what a tile is on a GPU, written in CUDA, and where its bytes come
// from, counted. No GPU is needed: the project has a model of one, which runs threads on the CPU.
//
// ## One thread per row
//
// A GPU has about a hundred processors, which NVIDIA calls SMs (streaming multiprocessors). Each keeps
// up to 2,048 threads going. A **kernel** is a function that all of them run; each asks for its number
// to find its share. Threads come in groups: a *thread block*, up to 1,024 of them, stays together on
// one SM, where its threads can wait for each other. Blocks are independent of each other, and so are
// query rows: a block gets a tile of rows, and there are enough blocks for all.
//
// To begin with, a thread owns one row. The row and its carried state lie in registers, which are
// the thread's alone. `row.meet(k, v)` carries the state on by one key, as in lesson 3, and `read`
// copies numbers into registers.
//
// Q, K, V and out lie in **global memory**, the large one that all blocks see. This kernel fetches
// every key from there (`at.k` and `at.v` are pointers that count the reads through them):
#include <cuda_runtime.h>

#include "lessons/book/gpu.h"

namespace ringscope::lessons::chapter_22 {
//-
constexpr int kTokens = 256, kDim = 32, kKeys = 32;
using Row = GpuRow<kDim>;
//+
void without_tiles(const GpuArrays& at) {
  const int number = blockIdx.x * blockDim.x + threadIdx.x;
  Row row;
  read(row.q, at.q + number * kDim);
  for (int key = 0; key < kTokens; ++key) row.meet(at.k + key * kDim, at.v + key * kDim);
  row.write(at.out + number * kDim);
}

// The next kernel has a workbench. Every SM has some 200 KiB of memory of its own, much faster
// than global memory, and a block may claim a piece of it: its *shared memory*. The block's threads
// fetch 32 keys together, a few values each, and then all work from there. A **barrier** holds a thread
// until all threads of its block have come to it. (In CUDA it is `__syncthreads()`. Here barriers have
// numbers, so that we can leave one of them out.) And a thread may own several rows:
template <int kRows>
void with_tiles(const GpuArrays& at) {
  const int first = blockIdx.x * blockDim.x * kRows + threadIdx.x;
  const Counted k_tile = at.shared, v_tile = at.shared + kKeys * kDim;
  Row rows[kRows];
  for (int r = 0; r < kRows; ++r) read(rows[r].q, at.q + (first + r * blockDim.x) * kDim);
  for (int key = 0; key < kTokens; key += kKeys) {
    barrier(1);  // nobody needs the last tile any more
    for (int i = threadIdx.x; i < kKeys * kDim; i += blockDim.x) {
      k_tile[i] = at.k[key * kDim + i];
      v_tile[i] = at.v[key * kDim + i];
    }
    barrier(2);  // the tile is complete
    for (int j = 0; j < kKeys; ++j) {
      float k[kDim], v[kDim];
      read(k, k_tile + j * kDim);
      read(v, v_tile + j * kDim);
      for (Row& row : rows) row.meet(k, v);
    }
  }
  for (int r = 0; r < kRows; ++r) rows[r].write(at.out + (first + r * blockDim.x) * kDim);
}

void lesson_22(Page& page) {
  // ## Counting
  //
  // Take 256 queries and 256 keys of 32 numbers. K and V together are 64 KiB, and a block has 64
  // threads. (CUDA writes `f<<<4, 64, 4 * n>>>(in)` for `run_kernel(f, {4, 64, n}, in)`.)
  const Guess naive = page.predict("How much of K and V does the first kernel read?", "MiB");
  const Guess tiled = page.predict("With tiles and one row per thread, how much is read?", "KiB");
  const AttentionInputs in = random_inputs({.seqlen = kTokens, .head_dim = kDim});
  const int floats = 2 * kKeys * kDim;  // of shared memory, for a block
  GpuRun runs[] = {run_kernel(without_tiles, {.blocks = 4, .threads = 64}, in),
                   run_kernel(with_tiles<1>, {4, 64, floats}, in),
                   run_kernel(with_tiles<2>, {2, 64, floats}, in),
                   run_kernel(with_tiles<4>, {1, 64, floats}, in)};
  page.answer(naive, runs[0].global.bytes_read() / 0x1p20);
  page.answer(tiled, runs[1].global.bytes_read() / 0x1p10);

  // The 64 threads of a block share what it fetches. (Caches would have caught some of the first
  // kernel's reads, by luck.) But the reads have only moved to the workbench. There the same idea
  // helps: a value in a register serves all rows of the thread.
  Table reads({"kernel", "K and V from global memory", "from shared memory"});
  const char* const names[] = {"without tiles", "tiles, one row per thread", "2 rows", "4 rows"};
  int wrong = 0;
  for (int i = 0; i < 4; ++i) {
    wrong += wrong_rows(runs[i], in, kDim);
    reads.row(names[i], bytes(runs[i].global.bytes_read()), bytes(runs[i].shared.bytes_read()));
  }
  page.table(reads);

  // But registers are few, and fewer blocks leave SMs idle. Only measuring tells where to stop.
  //
  // ## Why the barriers
  //
  // In the model some threads run as far ahead as barriers let them, and shared memory begins as
  // NaN. A missing barrier therefore shows:
  double without[3];  // wrong rows with both barriers, without the first, without the second
  for (left_out = 0; left_out < 3; ++left_out)
    without[left_out] = wrong_rows(run_kernel(with_tiles<1>, {4, 64, floats}, in), in, kDim);
  page.value("wrong rows", numbers({without[0], without[1], without[2]}, 0));

  // The third kernel of the project's ladder has both barriers, for tiles of 32 rows by 32 keys:
  page.region("cuda/kernels/03_shared_tiles.cu", "tile");

  // ## Thirty-two at a time
  //
  // 32 threads are a **warp**, and read together. Global memory delivers in pieces of 32 bytes. Shared
  // memory has 32 parts: word w is in **bank** w mod 32, and a bank serves one word per round. It therefore
  // matters which words neighbours ask for:
  page.predict("Rows of 32 words. Thread i wants the first word of row i. How many rounds?", "",
               access_of([](int i) { return 32 * i; }).rounds());
  Table warps({"thread i wants word", "pieces of global memory", "rounds at shared memory"});
  for (const int n : {0, 1, 32, 33}) {
    const MemoryCount count = access_of([n](int i) { return n * i; });
    warps.row(std::to_string(n) + " i", count.pieces(), count.rounds());
  }
  page.table(warps);

  // Neighbours should fetch neighbouring values. Where threads then read down a column, rows are
  // padded to an odd number of words. The third kernel does so with `k`:
  page.region("cuda/kernels/03_shared_tiles.cu", "storage");

  // ## Checks
  page.equal("Naive attention agrees in all rows of all kernels", wrong + without[0], 0);
  page.check("Without either barrier it does not", without[1] > 0 && without[2] > 0);
  page.equal("No piece is fetched in vain", 32 * runs[1].global.pieces(), 256 * 1024);

  // ## Exercise
  //
  // Write a kernel (`lessons/22_gpu_threads_and_tiles/exercise.h`): each of 64 threads needs a key.
  // Fetch no piece in vain, and let the threads take their keys from shared memory in one round.
  // `./ringscope lesson 22 --check` counts. In lesson 23 the threads stop multiplying.
}

}  // namespace ringscope::lessons::chapter_22
