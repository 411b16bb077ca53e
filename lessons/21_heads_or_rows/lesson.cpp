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
// Four ranks have two rows each of a text of eight, with all four heads: all other layers of the
// model want it so. For attention each rank gives away its rows of three heads, and gets the other
// rows of the fourth. Each rank sends something to every other one: an **all-to-all**. Then rank h
// attends head h alone, under any mask, and a second all-to-all brings outputs back. That is
// *Ulysses*.
#include <fmt/format.h>

#include <vector>

#include "core/cost/amounts.h"
#include "core/cost/time.h"
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

  // No softmax is carried on or merged, so the outputs are one machine's to the last bit. And zigzag
  // isn't needed, since a causal head is the same work on every rank.
  //
  // ## Bytes
  //
  // With c rows a rank, H query heads, G heads of K and V, and e bytes a number, a rank sends
  //
  //     ring       (N-1) hops of c rows of K and V             (N-1) · c · 2G · d · e
  //     Ulysses    all of Q, K, V and out but its own part     (N-1)/N · c · (2H + 2G) · d · e
  //
  // so the ring sends N G / (H + G) times as much.
  page.predict("8 ranks, 32 query heads, 8 of K and V: how many times Ulysses' bytes?", "",
               8 * 8 / double{32 + 8}, 0.05);
  //-
  Table sent({"N", "ring / Ulysses, 32 kv heads", "8 kv heads", "1 kv head"});
  bool as_counted = true;
  for (const int n : {2, 4, 8, 16, 32}) {
    std::vector<Cell> cells = {n};
    for (const Index heads_kv : {32, 8, 1}) {
      const double ratio = n * heads_kv / (32.0 + heads_kv);
      cells.push_back(heads_kv % n == 0 ? fixed(ratio, 2) : "(" + fixed(ratio, 2).kept + ")");
      const Problem ring = job_of(8192, n, heads_kv), swap = job_of(8192, n, heads_kv, kSwap);
      const double bytes_of_swap = traffic_of(swap, 0).forward_bytes;
      if (heads_kv % n == 0)
        as_counted &= std::abs(traffic_of(ring, 0).forward_bytes / bytes_of_swap - ratio) < 1e-12;
    }
    sent.add(cells);
  }
  //+
  page.table(sent);

  // In brackets Ulysses can't run: each rank needs a head of K and V, so N must divide G, and 8 such
  // heads end at 8 ranks. (Copies of K and V get round that, and cost bytes.) A ring has no limit.
  //
  // ## What breaks if only bytes are compared?
  //
  // The choice. A ring's hops run beside the computing; an all-to-all doesn't, because no head can
  // begin before its rows have come. So bytes count where a ring can't hide them, below the
  // crossover. Eight H100 on NVLink4, 8 of 32 heads of K and V, causal, one layer forward:
  const Rates rates = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  //-
  const auto time_of = [&](Problem job) { return layer_time(job, balance_of(job), rates).forward; };
  Table times({"tokens", "ring", "of it exposed", "Ulysses", "of it exposed", "sooner"});
  std::vector<bool> ulysses_wins;
  for (const Index s : {2048, 8192, 32768, 131072}) {
    const PassTime ring = time_of(job_of(s, 8, 8)), swap = time_of(job_of(s, 8, 8, kSwap));
    const auto ms = [](double t) { return fmt::format("{:.3f} ms", 1e3 * t); };
    ulysses_wins.push_back(swap.total() < ring.total());
    times.row(s, ms(ring.total()), ms(ring.exposed), ms(swap.total()), ms(swap.exposed),
              ulysses_wins.back() ? "Ulysses" : "ring");
  }
  //+
  page.table(times);

  // Ulysses wins on short texts, the ring on long ones. (That a message costs something to start isn't
  // counted. There are 2 (N-1) a rank, and N-1 in a ring.)
  //
  // ## Both
  //
  // 16 ranks and 8 heads of K and V: make groups of U ranks that swap heads, and let the N / U
  // ranks that then have the same heads form a ring. The hybrid sends
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
  page.check("Ulysses wins with 2,048 tokens, the ring with 131,072",
             ulysses_wins.front() && !ulysses_wins.back());
  page.check("The hybrid of 8 sends least", units(8) < units(4) && units(4) < units(2));

  // ## Exercise
  //
  // Write the swap for several heads a rank, and find the best U: `./ringscope lesson 21 --check`
  // tries `lessons/21_heads_or_rows/exercise.h`.
}

}  // namespace ringscope::lessons::chapter_21
