// # The GPU ladder V: what an H100 said
// > Seven kernels compute the same sums, the last some 450 times as fast as the first. What each
// > step gains says what the step before it was waiting for. To find out, measure: guesses mislead.
//
// **You know** the ideas of the ladder (lessons 22 to 25). **You will see** how fast each kernel
// is on an H100, which idea saves no time, how a kernel of the backward pass was found waiting for a
// copy-issuing warp that could not keep up, and how a ring runs inside one kernel.
//
// ## Seven kernels
//
// Forward with head_dim 128: kernels 01 to 04 in f32 with 4,096 rows, the others in bf16 with 8,192. On
// the same card cuDNN reaches 683 TFLOP/s, and FlashAttention-2, which is written with `mma` like 05,
// 366 ([all figures](../../cuda/README.md#what-they-reach)).
#include <cuda_runtime.h>

#include "lessons/book/gpu.h"

namespace ringscope::lessons::chapter_26 {
void lesson_26(Page& page) {
  //-
  struct Step {
    const char *kernel, *idea;
    double tflops;
  };
  const std::vector<Step> steps = {
      {"01_naive", "three kernels, and the scores in memory between them (lesson 1)", 1.5},
      {"02_online_softmax", "scores are never stored: a warp per row (3)", 1.0},
      {"03_shared_tiles", "32 rows share K and V in shared memory (22)", 10.3},
      {"04_register_tiles", "rectangles of scores and outputs in registers (23)", 27.2},
      {"05_tensor_cores", "`mma` on swizzled tiles (23, 24)", 358},
      {"06_hopper", "TMA and `wgmma`, a producer and consumers (23, 25)", 582},
      {"07_hopper_overlap", "softmax beside the next product (25)", 692}};
  //+
  page.predict(
      "01 reaches 1.5 TFLOP/s. 02 doesn't store scores any more, so it moves far fewer bytes. What "
      "does it reach?",
      "TFLOP/s", steps[1].tflops);
  Table ladder({"kernel", "idea", "TFLOP/s", "times the one before"});
  Drawing speeds;
  double last = 0;
  for (const Step& step : steps) {
    const auto number = [](double x) { return fixed(x, x < 100 ? 1 : 0); };
    ladder.row("`" + std::string(step.kernel) + "`", step.idea, number(step.tflops),
               last == 0 ? Cell("") : fixed(step.tflops / last, 1));
    speeds.strip(step.kernel, {{0, step.tflops / steps.back().tflops, step.tflops < 100 ? 0 : 1}},
                 number(step.tflops).kept);
    last = step.tflops;
  }
  page.table(ladder);
  page.picture("ladder.svg", "TFLOP/s. Without tensor cores a kernel is hardly seen", speeds);

  // Online softmax saves memory, and that is what long texts need it for. It saves no time by itself: in
  // 02 each row reads all of K and V anew. In 03 a fetched number serves 32 rows, and in 04 one in a
  // register serves four at once; that is where time comes from. From 04 to 05 the speed grows
  // thirteenfold, but not by tensor cores alone: 05 also reads bf16 in place of f32, half the bytes, and
  // has twice the rows. 06 and 07 compute as much as 05, but keep one part of an SM from waiting for
  // another. Measured one after the other, as here, kernels can be compared only roughly: 07 itself gave
  // 692 and 633 TFLOP/s in one file. A step of less than a tenth shows only where launches alternate.
  //
  // ## A warp that could not keep up
  //
  // In kernel 11, a block owns keys, and tiles of queries visit it. Each visit takes five products, and
  // its part of dQ is added to memory. Blocks take turns at that, so that the same bits come out every
  // time. A simulation said that turns cost 2 % at most. In its first run on an H100 (commit f85c4667,
  // 2026-11-26) kernel 11 took 7,000 clocks per visit (350 TFLOP/s), and 5,000 without turns.
  page.predict(
      "By NVIDIA's figures an SM makes 4,096 operations per clock. How many clocks do the five "
      "products of a visit take, 64 queries and 128 keys with head_dim 128?",
      "clocks", 5 * 2.0 * 64 * 128 * 128 / 4096);

  // What was it waiting for? `ncu --set full` notes, many thousand times a second, at which instruction
  // each warp stands. Half of the time, the warps that compute were waiting for room to put dQ. The warp
  // that makes that room was busy with its copies: one for each of the tile's 64 rows, and the lanes of
  // a warp issue such copies one after the other, about every 50 clocks. The simulation had been right
  // about the order of turns, but it had assumed a warp that issues copies at once.
  //
  // This plays one visit after the other, with `adders` that each have one part of dQ under way at a time:
  const auto clocks_per_visit = [](double compute, double carry, double spread, int adders) {
    const std::vector<double> random = random_values<double>(RandomTensor::q, 10'000);
    std::vector<double> free(adders);  // when each is ready for the next part
    double now = 0;
    for (std::size_t visit = 0; visit < random.size(); ++visit) {
      double& ready = free[visit % adders];
      now = std::max(now + compute, ready);
      ready = now + carry + spread * random[visit];
    }
    return now / static_cast<double>(random.size());
  };
  Table visits({"who adds a part of dQ", "it takes", "clocks per visit"});
  const auto row = [&](const char* who, double carry, double spread, int adders) {
    const double clocks = clocks_per_visit(4050, carry, spread, adders);
    visits.row(who, std::lround(carry), std::lround(clocks));
    return clocks;
  };
  const double by_rows = row("a warp, row by row", 7000, 1000, 1);
  const double one = row("a thread, the whole tile at once", 3700, 1000, 1);
  const double two = row("two threads in turn, with a buffer each", 3700, 1000, 2);
  page.table(visits);

  // An addition takes about 3,700 clocks with its turn, give or take 1,000, and 3,300 more if it is
  // issued row by row. Computing takes 4,050. One thread would do if all additions were alike, but each
  // late one holds up the next visit, and an early one doesn't make up for it (lesson 18). With two
  // buffers nobody waits. On the same day, the tile at once gave 429 TFLOP/s, and a second thread 513.
  // With simpler addresses and another order of keys it was 560 (ffb790d5), of which such figures can't
  // tell what is chance.
  //
  // ## The ring inside the kernel
  //
  // Up to here a kernel is one ring step, and the host has blocks copied between steps (lesson 12). The
  // last rung, kernel 12, needs no host between them: one launch is the whole ring. All blocks of the
  // grid run at once, B per rank. In each of them one warp copies parts of the KV block that the rank
  // before holds, and the others attend what has come.
  //
  // That is lesson 23's pair of barriers, one level up. Its buffers are slots in memory now: a rank's own
  // KV block stays in slot 0, and the others take turns in slots 1 and 2. `full` names the ring step
  // whose block is in a slot. `empty` counts who is done with a step's block.
  page.predict(
      "A rank has 16 blocks, which all attend the block in a slot. The next rank has 16 as well, "
      "which "
      "copy it onward. How many must be done before the slot may be filled again?",
      "blocks", 2 * 16);

  // On the model, with one block per rank, and a number in place of a KV block. One thread adds up the
  // numbers that come by, in place of attention, and one copies:
  const auto ring = [](std::array<RankMemory, kRanks>& ranks) {
    const int rank = static_cast<int>(blockIdx.x);
    RankMemory &mine = ranks[rank], &before = ranks[(rank + kRanks - 1) % kRanks];
    for (int step = 0; threadIdx.x == 0 && step < kRanks; ++step) {  // attends
      if (step > 0) await(1, mine.full[cuda::slot_of(step)], step);
      mine.sum += mine.slot[cuda::slot_of(step)];
      count(2, mine.empty[step]);
    }
    for (int step = 1; threadIdx.x == 32 && step < kRanks; ++step) {  // copies
      if (step > 2) await(3, mine.empty[step - 2], 2);
      if (step > 1) await(4, before.full[cuda::slot_of(step - 1)], step - 1);
      mine.slot[cuda::slot_of(step)] = before.slot[cuda::slot_of(step - 1)];
      cuda::ptx::pass_memory_turn(&mine.full[cuda::slot_of(step)], step);
      count(5, before.empty[step - 1]);
    }
  };

  // Each of the five calls is left out in turn, while threads run in two orders:
  //-
  Table flags({"left out", "attending threads first", "copying threads first"});
  const char* const calls[] = {"nothing",         "1, has it come?",        "2, attended",
                               "3, is it empty?", "4, has the one before?", "5, copied onward"};
  bool all_needed = true;
  for (left_out = 0; left_out < 6; ++left_out) {
    const std::string attending = ring_outcome(ring, cuda::model::ThreadOrder::ascending);
    const std::string copying = ring_outcome(ring, cuda::model::ThreadOrder::descending);
    flags.row(calls[left_out], attending, copying);
    all_needed &= (attending == "right" && copying == "right") == (left_out == 0);
  }
  left_out = 0;
  page.table(flags);

  // Nobody waits in a circle: what a step waits for belongs to an earlier step, or is a copy that waits
  // for earlier steps alone. `cuda/kernels/12_fused_ring.cu` is kernel 07 with this around it, in chunks
  // of 128 rows, and gives the same bits as its steps launched one by one. So far it has run on the model
  // alone. Even a GPU can't show all that several GPUs need: flags that all of them see (`.sys` in place
  // of `.gpu`), the order in which a link delivers data and flags, and launches that run at the same time
  // on several GPUs.
  //
  // ## On paper
  page.predict("A tile has 64 rows, and a copy is issued every 50 clocks. How long does that take?",
               "clocks", 64 * 50);
  page.predict(
      "Two threads, each 9,000 clocks per part, and 4,050 clocks of computing. Clocks per visit?",
      "clocks", std::max(4050, 9000 / 2));

  page.predict(
      "Another kernel takes 6,000 clocks per tile: 4,000 without its copies, 5,900 without its "
      "exp, "
      "and its products alone 3,800. By what factor is it faster, at most, once copies are hidden?",
      "times", 6000 / 4000.0);

  // ## Checks
  page.check("Saving bytes alone saves no time", steps[1].tflops < steps[0].tflops);
  page.check("With tensor cores and bf16, 05 is more than ten times as fast as 04",
             steps[4].tflops > 10 * steps[3].tflops);
  page.check("A slow warp sets the pace", std::abs(by_rows - 7000) < 50);
  page.check("One thread is held up by chance", one > 1.02 * 4050);
  page.check("Two threads are hardly ever", two < 1.01 * 4050);
  page.check("A ring inside a kernel is right, and none of its five calls can be left out",
             all_needed);
}

}  // namespace ringscope::lessons::chapter_26
