// # Heads or rows: Ulysses beside the ring
// > Heads don't need each other. So ranks can swap rows for heads, compute whole heads with any
// > kernel, and swap back; until the heads run out.
//
// **You know** the ring, whose ranks keep rows (lesson 6), grouped heads (28), and the crossover
// from which hops cost nothing (12). **You will see** the other way to share attention, what it
// sends, when it wins, when it can't be used, and how the two are combined.
//
// ## Swap, compute, swap back
//
// A text has eight rows, and each of four ranks holds two of them with all four heads, because all
// other layers of the model need whole rows. For attention each rank gives away three heads of its
// rows and gets the fourth head of all other rows. Each rank sends something to every other one,
// which is an **all-to-all**. Then rank h attends head h alone, under any mask, and a second
// all-to-all brings the outputs back. This is *Ulysses*.
#include <fmt/format.h>

#include <vector>

#include "lessons/book/page.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_21 {
//-
constexpr Scheme kSwap = Scheme::ulysses;
static Problem job_of(Index seqlen, int ranks, Index heads_kv, Scheme scheme = Scheme::ring) {
  return {.shape = {1, 32, heads_kv, seqlen, 128},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse("causal"),
          .partition = PartitionKind::zigzag,
          .world_size = ranks,
          .scheme = scheme};
}
//+

void lesson_21(Page& page) {
  // A rank's share is [heads][its rows][head_dim]; what it computes on is [its heads][all rows].
  // The swap only changes who has what, so it can be written as one loop over all of it:
  const Index ranks = 4, rows = 2, dim = 4, seqlen = ranks * rows;
  using Shares = std::vector<std::vector<float>>;  // by rank
  const auto to_heads = [&](const Shares& by_rows) {
    Shares by_heads(ranks, std::vector<float>(seqlen * dim));
    for (Index from = 0; from < ranks; ++from)
      for (Index to = 0; to < ranks; ++to)  // rank `to` gets head `to`
        for (Index x = 0; x < rows * dim; ++x)
          by_heads[to][from * rows * dim + x] = by_rows[from][to * rows * dim + x];
    return by_heads;
  };
  //-
  Problem four{.shape = {1, 4, 4, seqlen, dim}, .mask = MaskSpec::parse("causal")}, one = four;
  one.shape.num_heads = one.shape.num_heads_kv = 1;
  const AttentionInputs all = random_inputs(four.shape);
  const auto dealt = [&](const std::vector<float>& tensor) {
    Shares by_rows(ranks);
    for (Index i = 0; i < ranks * ranks; ++i)  // rank i / 4, head i % 4
      for (Index x = 0; x < rows * dim; ++x)
        by_rows[i / 4].push_back(tensor[(i % 4 * seqlen + i / 4 * rows) * dim + x]);
    return by_rows;
  };
  //+
  const Shares q = to_heads(dealt(all.q)), k = to_heads(dealt(all.k)), v = to_heads(dealt(all.v));
  std::vector<double> ulysses;
  for (Index r = 0; r < ranks; ++r)  // each rank, with its head
    for (double o : exact_attention(one, {q[r], k[r], v[r], {}}).out) ulysses.push_back(o);

  // No softmax is carried on or merged: outputs are one machine's to the last bit. And zigzag isn't
  // needed, since a causal head is the same work on every rank.
  //
  // ## Bytes
  //
  // With c rows a rank, H query heads, G heads of K and V, and e bytes a number, a rank sends
  //
  //     ring       (N-1) hops of c rows of K and V             (N-1) · c · 2G · d · e
  //     Ulysses    all of Q, K, V and out but its own part     (N-1)/N · c · (2H + 2G) · d · e
  //
  // so the ring sends N G / (H + G) times as much.
  page.predict("8 ranks, 32 query heads, 8 of K and V: a ring sends how many times as much?", "",
               8 * 8 / double{32 + 8});
  //-
  Table sent({"N", "ring / Ulysses, 32 kv heads", "8 kv heads", "1 kv head"});
  bool as_counted = true;
  for (const int n : {2, 4, 8, 16, 32}) {
    std::vector<Cell> cells = {n};
    for (const Index heads_kv : {32, 8, 1}) {
      const double ratio = n * heads_kv / (32.0 + heads_kv);
      cells.push_back(heads_kv % n == 0 ? fixed(ratio, 2) : "(" + fixed(ratio, 2).kept + ")");
      Problem job = layer_job(8192, n, heads_kv);
      const double ring = traffic_of(job, 0).forward_bytes;
      job.scheme = Scheme::ulysses;
      if (heads_kv % n == 0)
        as_counted &= std::abs(ring / traffic_of(job, 0).forward_bytes - ratio) < 1e-12;
    }
    sent.add(cells);
  }
  //+
  page.table(sent);

  // Brackets mean that Ulysses can't run: each rank needs a head of K and V, so N must divide G, and
  // 8 heads end at 8 ranks. Beyond that every rank needs a copy of a head: K and V then cost
  // (N-1) · c · 2 · d · e, as if G were N. A ring has no limit.
  //
  // ## What breaks if only bytes are compared?
  //
  // The choice is wrong. A ring's hops run beside the computing; one all-to-all for all heads doesn't,
  // because no head can begin before its rows have come. (If a rank has several heads, it can swap the
  // next one beside the computing of the first, and hide all but one.) So bytes count where a ring
  // can't hide them, below the crossover. Take eight H100 on NVLink4, 8 of 32 heads of K and V, causal, one layer forward;
  // F is 0.65 of the peak, so computing 131,072 tokens takes 35.56 / 2 / 0.65 ms (lesson 12):
  const Rates rates = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  //-
  const auto time_of = [&](Problem job) { return layer_time(job, balance_of(job), rates).forward; };
  Table times({"tokens", "ring", "of it exposed", "Ulysses", "of it exposed", "sooner"});
  std::vector<bool> ulysses_wins;
  for (const Index s : {1024, 4096, 32768, 131072}) {
    const PassTime ring = time_of(job_of(s, 8, 8)), swap = time_of(job_of(s, 8, 8, kSwap));
    const auto ms = [](double t) { return fmt::format("{:.4f} ms", 1e3 * t); };
    ulysses_wins.push_back(swap.total() < ring.total());
    times.row(s, ms(ring.total()), ms(ring.exposed), ms(swap.total()), ms(swap.exposed),
              ulysses_wins.back() ? "Ulysses" : "ring");
  }
  //+
  page.table(times);

  // Ulysses wins on short texts, the ring on long ones. They are equal where a ring's exposed time,
  // N-1 times a hop less a step, is the two swaps. With c*, and the ring's bytes over Ulysses', that is
  //
  //     c = c* · (1 - Ulysses' bytes / ring's bytes)  =  c* · (1 - (H + G) / (N G))
  const double c_star = threshold_rows(job_of(8192, 8, 8), rates, Pass::forward, 0.5);
  const double even = c_star * (1 - (32 + 8) / (8.0 * 8));
  //-
  const auto lead = [&](double c) {  // of Ulysses
    const auto s = 8 * static_cast<Index>(c);
    return time_of(job_of(s, 8, 8)).total() - time_of(job_of(s, 8, 8, kSwap)).total();
  };
  //+
  page.value("c* and break-even, in rows a rank", numbers({c_star, even}, 0));

  // (The cost of starting a message isn't counted. A rank starts 2 (N-1) here, and N-1 in a ring.)
  //
  // ## Both
  //
  // With 16 ranks and 8 heads of K and V, make groups of U ranks that swap heads, and let the N / U ranks
  // that then have the same heads form a ring. With outputs in e bytes (lesson 25 counts f32) it sends
  //
  //     (U-1)/U · c · (2H + 2G) · d · e   +   (N/U - 1) · c · 2G · d · e
  const auto units = [](double u) { return (u - 1) / u * (32 + 8) + (16 / u - 1) * 8; };
  page.print("2 c d e times " + numbers({units(1), units(2), units(4), units(8)}, 0));

  // for U = 1, 2, 4 and 8. Swaps need fast links, and a ring's hops can hide. So groups stay inside a
  // node, and the ring leads from node to node.
  //
  // ## Checks
  page.check("Ulysses is exact to the last bit", ulysses == exact_attention(four, all).out);
  page.check("The bytes are those that ./ringscope plan counts", as_counted);
  page.check("Ulysses wins with 1,024 tokens, the ring with 131,072",
             ulysses_wins.front() && !ulysses_wins.back());
  page.check("They change places at the break-even", lead(even - 2) > 0 && lead(even + 2) < 0);
  page.check("The hybrid of 8 sends least", units(8) < units(4) && units(4) < units(2));

  // ## Exercise
  //
  // Write the swap for several heads a rank, and find the best U: `./ringscope lesson 21 --check`
  // tries `lessons/21_heads_or_rows/exercise.h`.
}

}  // namespace ringscope::lessons::chapter_21
