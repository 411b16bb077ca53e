// # Overlap and F/B: is a ring worth it?
// > Computing grows with the square of a block's rows, sending only with the rows. From some
// > length on hops cost nothing, and one division gives it.
//
// **You know** that a hop hides behind the computing if it is shorter (lesson 6), and what travels
// under which mask (lessons 8 to 11). **You will see** how many rows a rank must hold for that, on
// which machines, and how many ranks a text can keep busy.
//
// ## Two lines that cross
//
// A rank holds c rows of H query heads and G KV heads, d = head_dim numbers each. (G may be
// less than H: lesson 10.) In a step its c queries meet c keys, which makes c² scores per head. Each
// takes d products and d sums, and so does its part of P V. Meanwhile c rows of K and of V come in, e
// bytes per number. At F operations and B bytes per second, one way, a step takes
//
//     computing   2 · 2 · d · H · c² / F        two matrix products; a product and a sum in each
//     sending     2 · d · G · c · e / B         K and V
//
// Twice the rows mean four times the computing, and twice the sending. From some c on computing
// takes longer. Where they are equal, d and one c cancel out, which leaves the *crossover*:
//
//     c* = (F/B) · (e/2) · (G/H)
//
// F/B is the number of operations done in the time that one byte takes to send. A key-value row costs
// 2 d e bytes and gives each query 4 d FLOPs; their ratio is e/2. G/H is the share of the heads that
// travels. For bf16, which has two bytes, and as many KV heads as query heads, c* is simply F/B.
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_12 {
void lesson_12(Page& page) {
  const Guess guess = page.predict(
      "An A100 that computes in bf16: F = 312 · 10¹² and B = 300 · 10⁹. What is its c*?", "rows");
  const Rates a100{.forward_flops = 312e12, .backward_flops = 312e12, .bytes_per_s = 300e9};
  const double crossover = threshold_rows(layer_job(8192, 8, 32), a100, Pass::forward, 1.0);
  page.answer(guess, crossover);

  // That is about 1,000 tokens per rank, or two pages. (Data sheets give links in both directions
  // together, 600 here. A hop uses one of them.) A causal mask, balanced by zigzag, halves the
  // computing and leaves the sending as it is, which doubles c*. With contiguous ranks, c* is that of a
  // full mask for all hops but the first, because the last rank, for which all others wait, has a full
  // block in every step after its own. The first hop runs beside a triangle, and needs twice as many
  // rows. (A100 and H100 are GPUs. NVLink joins the GPUs of one machine; InfiniBand and Ethernet join
  // machines.)
  Table machines({"GPU, link", "F/B", "full mask", "causal", "causal, 8 KV heads of 32"});
  for (const auto& [gpu, link] : {std::pair{"A100", "NVLink3"},
                                  {"H100", "NVLink4"},
                                  {"H100", "InfiniBand-NDR"},
                                  {"H100", "Ethernet-100G"}}) {
    const double peak = find_gpu(gpu).peak_flops(DType::bf16), way = find_link(link).bytes_per_s;
    const auto rows = [rates = Rates{peak, peak, way}](Index heads_kv, double share) {
      return std::round(threshold_rows(layer_job(8192, 8, heads_kv), rates, Pass::forward, share));
    };
    machines.row(fmt::format("{}, {}", gpu, link), std::round(peak / way), rows(32, 1),
                 rows(32, 0.5), rows(8, 0.5));
  }
  page.table(machines);

  // **Which F?** The one that attention reaches. This page takes the data sheet's peak, so real kernels
  // need fewer rows. FlashAttention-3's paper has 648 of an H100's 989 TFLOP/s, forward: a share of
  // 0.65, and 715 rows where the last column has 1,099. (For an A100, FlashAttention-2's paper has
  // 0.73.) Lessons 18, 19 and 20 and `plan` use these shares.
  //
  // Transfers also slow down the kernels beside them. NCCL, a library that sends between GPUs, moves a
  // hop by a kernel of its own, which takes some of the GPU's SMs (its processors, 132 on an H100) and
  // of its memory's bandwidth. A plain copy from GPU to GPU is made by a **copy engine**, a unit outside
  // of the SMs. How many SMs a hop takes is NCCL's choice; if it takes 8, computing beside it can't be
  // faster than this:
  page.value("time of computing on 124 of 132 SMs, more than on all", percent(132 / 124.0 - 1));

  // The table varies one term at a time, starting from the 1,040 rows of an A100:
  Table terms({"change", "in the formula", "c*", "factor"});
  const Problem plain = layer_job(8192, 8, 32);
  const double before = threshold_rows(plain, a100, Pass::forward, 1);
  const auto turn = [&](const char* what, const char* term, const Problem& job, const Rates& with,
                        double share, Pass pass = Pass::forward) {
    const double rows = threshold_rows(job, with, pass, share);
    terms.row(what, term, std::round(rows), fixed(rows / before, 2));
  };
  Problem wide = plain;
  wide.dtype = DType::f32;
  Rates half = a100;
  half.forward_flops /= 2;
  turn("half of the FLOP/s achieved", "F / 2", plain, half, 1);
  turn("f32 instead of bf16", "e = 4", wide, a100, 1);
  turn("a quarter of the heads in K, V", "G/H = 1/4", layer_job(8192, 8, 8), a100, 1);
  turn("causal, balanced", "c²/2 scores", plain, a100, 0.5);
  turn("backward", "five products; e + 4 bytes", plain, a100, 1, Pass::backward);
  page.table(terms);

  // In the last line, five products take 5/2 of the time, and two bytes become six, because a number's
  // gradient travels in four (lesson 9): 3 / 2.5 = 1.2.
  //
  // ## Below the crossover
  //
  // Then the hop takes longer than the computing, and the difference is *exposed communication*.
  // The table has it for eight H100 with InfiniBand, 32 heads of 128, and a full mask. Times are
  // those of all steps together:
  Table lengths({"seqlen", "rows per rank", "computing", "exposed", "exposed, of all time"});
  double exposed_at_crossover = 0;
  const Rates reached = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  const Rates cluster{.forward_flops = 989.4e12, .backward_flops = 989.4e12, .bytes_per_s = 50e9};
  for (const Index rows : {1024, 4096, 16384, 19788, 32768}) {
    const Problem job = layer_job(8 * rows, 8, 32);
    const PassTime time = layer_time(job, balance_of(job), cluster).forward;
    lengths.row(8 * rows, rows, fmt::format("{:.2f} ms", 1e3 * time.compute),
                fmt::format("{:.2f} ms", 1e3 * time.exposed), percent(time.exposed / time.total()));
    if (rows == 19788) exposed_at_crossover = time.exposed / time.total();
  }
  page.table(lengths);

  // At c* = 19,788 the exposed part is gone, and stays gone. Read the other way round, a text of S
  // tokens can keep S / c* ranks busy. With more ranks, blocks are too small.
  //
  page.predict("How many of the H100s with InfiniBand can 1,048,576 tokens keep busy, at most?",
               "ranks", std::floor(1048576 / 19788.0));

  // ## In the viewer
  //
  // Two lines of the table of eight H100 are simulated and recorded. Compare them:
  // `./ringscope view runs/lessons/12.json runs/lessons/12-large.json`.
  //-
  const auto recorded_ring = [&](Index rows) {
    Scenario ring;
    ring.job = layer_job(8 * rows, 8, 32);
    ring.rates = cluster;
    return record(ring, {}, "8 H100").recording;
  };
  page.trace(recorded_ring(4096),
             {{"4,096 rows. A hop is 4.8 times as long as a step, and everybody waits for it."}});
  page.trace(recorded_ring(32768), {{"32,768 rows: no gaps."}}, "large");

  // `./ringscope plan` does these sums for any machine, and `plan --measure` finds F and B of yours.

  // ## On paper
  const Rates slow{.forward_flops = 1e12, .backward_flops = 1e12, .bytes_per_s = 1e9};
  page.predict("F = 10¹², B = 10⁹, f32, equal heads, a full mask: what is c*?", "rows",
               threshold_rows(wide, slow, Pass::forward, 1));
  page.predict("The same in the backward pass?", "rows",
               threshold_rows(wide, slow, Pass::backward, 1));

  // ## Checks
  page.equal("With 0.65 of its peak, the H100 needs 715 rows with NVLink4, causal, 8 of 32 heads",
             std::round(threshold_rows(layer_job(8192, 8, 8), reached, Pass::forward, 0.5)), 715);
  page.check("At the crossover nothing is exposed", exposed_at_crossover < 1e-3);

  // ## Exercise
  //
  // Write c* for any layer and machine, and the seconds that a ring below it exposes:
  // `lessons/12_overlap/exercise.py`. `./ringscope lesson 12 --check` tries it.
}

}  // namespace ringscope::lessons::chapter_12
