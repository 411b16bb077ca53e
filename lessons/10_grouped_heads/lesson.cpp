// # Grouped heads: fewer KV heads
// > Several query heads can share one KV head. The work stays the same, but hops and caches
// > shrink, and so does the number of rows that it takes to hide a hop.
//
// **You know** the ring with one head (lesson 6) and its gradients (9).
// **You will see** a ring whose blocks have fewer heads than its queries, what that saves, and what it
// limits.
//
// ## Who shares what
//
// Models have many heads, each with its own Q, K and V. In many newer ones, several query heads share
// one head of K and V, a **KV head**: *grouped heads*. Say that 32 query heads share 8 KV heads. Query
// heads 0 to 3 attend KV head 0, 4 to 7 attend KV head 1, and so on. Every query head still computes its
// own scores, so the work is the same.
#include <utility>

#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_10 {
void lesson_10(Page& page) {
  page.predict("By what factor do the bytes of a hop shrink?", "times", 4);

  // Nothing else changes in the ring. A kernel that attends query head h takes head h / 4 of the block:
  const auto kv_head_of = [](Index head, Index heads, Index heads_kv) {
    return head / (heads / heads_kv);
  };
  Drawing sharing;
  for (const int heads_kv : {8, 2, 1}) {
    sharing.heading("8 query heads, " + count_text(heads_kv, "KV head"));
    const auto cell = [&](int h) {
      return std::pair(static_cast<int>(kv_head_of(h, 8, heads_kv)), h);
    };
    sharing.strip("Q", Drawing::cells(8, cell));
    sharing.strip("K, V", Drawing::cells(heads_kv, [](int h) { return std::pair(h, h); }));
  }
  page.picture("sharing.svg", "Each query head, above the KV head that it reads", sharing);

  // Here are 8 query heads and 2 KV heads, in a ring of four, backward included, beside the formulas in
  // double precision. A second run copies each KV head four times, so that every query head has its own:
  Problem copied = ring_job(8, 1024, 4, "causal", PartitionKind::zigzag);  // heads of 64
  copied.backward = true;
  Problem grouped = copied;
  grouped.shape.num_heads_kv = 2;
  const AttentionInputs in = random_inputs(grouped.shape);
  AttentionInputs copies = in;
  const Index head = 1024 * 64;
  for (std::vector<float>* x : {&copies.k, &copies.v})
    for (const std::vector<float> few = std::exchange(*x, {});
         const Index h : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const auto from = few.begin() + kv_head_of(h, 8, 2) * head;
      x->insert(x->end(), from, from + head);
    }
  const RingRun run = run_on_threads(grouped, in), wide = run_on_threads(copied, copies);
  //-
  const auto exact = exact_attention(grouped, in, true);
  const double out_off = largest_difference(run.outputs.out, exact.out);
  const double dk_off = largest_difference(run.outputs.dk, exact.dk);
  std::vector<float> summed(in.k.size());
  for (Index h = 0; h < 8; ++h)
    for (Index i = 0; i < head; ++i)
      summed[kv_head_of(h, 8, 2) * head + i] += wide.outputs.dk[h * head + i];
  const double sum_off = largest_difference(summed, exact.dk);
  const double sent = bytes_sent(run, 0), wide_sent = bytes_sent(wide, 0);
  Table both({"", "2 KV heads", "8, copied"});
  both.row("sent per rank, both passes", bytes(sent), bytes(wide_sent));
  both.row("largest error of out", rounding(out_off, 3e-6),
           rounding(largest_difference(wide.outputs.out, exact.out), 3e-6));
  both.row("and of dK (copies added up)", rounding(dk_off, 2e-5), rounding(sum_off, 2e-5));
  page.table(both);

  // A KV head serves four query heads, so its gradient is the sum over the four. The ring adds them up
  // before the gradient leaves the rank. A program that copies heads has to add up the copies' gradients.
  //
  // ## What becomes cheaper
  //
  // Lesson 12 computes c*, the rows per rank from which computing hides a hop. It has the factor G/H,
  // so with fewer KV heads, fewer rows suffice. A model that writes keeps K and V of all tokens
  // (lesson 16). With G of these heads, each byte serves H/G queries. For a layer of 32 query heads of
  // 128 numbers in bf16, on an A100 with NVLink3:
  Table saved({"KV heads", "K and V of a token", "c*, causal", "FLOPs per byte in decode"});
  const Rates a100{.forward_flops = 312e12, .backward_flops = 312e12, .bytes_per_s = 300e9};
  for (const Index g : {32, 8, 1})
    saved.row(g, bytes(2.0 * static_cast<double>(g) * 128 * 2),
              std::round(threshold_rows(layer_job(8192, 8, g), a100, Pass::forward, 0.5)), 32 / g);
  page.table(saved);

  // ## Heads from a latent
  //
  // DeepSeek's and Kimi's models go another way. All heads' K and V of a token are computed from one row
  // of 512 numbers, the *latent*, and 64 more carry its rotary positions. A head has keys of 192 numbers
  // and values of 128, which a ring takes as they are: V, out and dO have a width of their own. The cache
  // keeps the latent alone. For 128 heads in bf16:
  const Problem heads{.shape = {1, 128, 128, 8192, 192, 128}, .dtype = DType::bf16};
  const double expanded = static_cast<double>(heads.ring_problem().row_bytes(Payload::kv));
  const double latent = (512 + 64) * 2;
  page.value("a token's heads, and its latent", numbers({expanded, latent}, 0), "bytes");

  // A ring may send either. With the heads, each rank computes them once and 71 times as much travels.
  // With the latents, each rank computes all ranks' heads anew: 2 · 512 · 128 · (128 + 128) FLOPs, 34
  // million, for each row of each block, backward as well. Ranks that divide heads (lesson 15) send the
  // latent, and expand their own heads.
  //
  // ## What it limits
  //
  // Whatever divides heads among ranks, as later lessons do (15, 19), reaches its limit sooner: each
  // rank needs a KV head of its own. If there are more ranks than such heads, heads are copied,
  // and all ranks together hold and send N heads in place of G. A ring divides rows, so it isn't
  // affected. One could also leave K and V where they are, and let queries and their states go round
  // (lesson 19). With grouped heads that sends more than a ring.
  page.choose("One KV head for 32 query heads, eight ranks. Which scheme sends least?",
              {"a ring", "one that passes queries round"}, "a");

  // ## On paper
  page.predict("A rank has query heads 6 to 11 of 32. How many of 8 KV heads does it need?",
               "heads", kv_head_of(11, 32, 8) - kv_head_of(6, 32, 8) + 1);
  page.predict("16 ranks divide these heads. On how many ranks does each KV head lie?", "ranks",
               16 / 8);
  page.predict("A number of K has four copies, with gradients 1, 2, 3 and 4. What is its gradient?",
               "", 1 + 2 + 3 + 4);
  page.predict("128 heads, keys of 192, values of 128: by what is a latent of 576 less?", "times",
               expanded / latent);

  // ## Checks
  page.equal("A hop of 2 heads in place of 8: a quarter", 4 * sent, wide_sent);
  page.at_most("The output is exact up to rounding", out_off, 3e-6);
  page.at_most("So is dK", dk_off, 2e-5);
  page.at_most("The copies' gradients add up to it", sum_off, 2e-5);
  page.check("34 million FLOPs expand a row",
             2.0 * 512 * 128 * 256 > 33.5e6 && 2.0 * 512 * 128 * 256 < 34e6);
  page.check("With one head, a ring sends less than pass-Q",
             traffic_of(on_8("ring", 8192, 32, 1, "NVLink4").job, 0).forward_bytes <
                 traffic_of(on_8("pass-q", 8192, 32, 1, "NVLink4").job, 0).forward_bytes);

  // ## Exercise
  //
  // In `lessons/10_grouped_heads/exercise.py`, say which KV heads a rank needs for its query heads, and add
  // up the gradients of the copies. `./ringscope lesson 10 --check` tries it.
}

}  // namespace ringscope::lessons::chapter_10
