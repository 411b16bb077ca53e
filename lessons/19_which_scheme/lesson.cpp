// # Which scheme? Heads or rows, and an atlas
// > Every scheme brings each query to each key once. They differ in what moves, over which wires,
// > and in what has to wait; heads, rows and links decide between them.
//
// **You know** the ring and the all-gather (lessons 5 and 6), grouped heads (10), the crossover (12),
// and the two-level ring (18). **You will see** a scheme that swaps rows for heads, and then eight
// of this project's schemes side by side: what moves, how many bytes, and how long that takes.
//
// ## Swap, compute, swap back
//
// Heads don't need each other. A text has eight rows, and each of four ranks holds two of them with all
// four heads, because the other layers of a model need whole rows. For attention rank h gives away
// the three other heads of its rows, and gets head h of all others. Each rank sends something to
// every other one, which is an **all-to-all**. Then rank h attends head h alone, with any kernel and
// any mask, and a second all-to-all brings the outputs back. This is *Ulysses*.
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_19 {
//-
struct NamedScheme {
  const char *scheme, *name, *moves;
  double forward;  // values of 16 bits that 8 ranks send for a row of 128, 32 heads and 8 kv heads
};

// In these terms: a hop of K and V, a query, and its state of 4 d + 12 bytes per head.
constexpr double kKv = 2 * 8 * 128, kQuery = 32 * 128, kState = 32 * (4 * 128 + 12) / 2;
constexpr NamedScheme kSchemes[] = {
    {"ring", "ring", "K, V", 7 * kKv},
    {"bidirectional", "both ways", "K, V in halves", 7 * kKv},
    {"pass-q", "pass-Q", "Q, states", 7 * kQuery + 8 * kState},
    {"allgather", "all-gather", "K, V", 7 * kKv},
    {"ulysses", "Ulysses", "Q, K, V, out", 7.0 / 8 * (2 * kQuery + kKv)},
    {"hybrid:4", "hybrid, U = 4", "Q, K, V, out",
     3.0 / 4 * (kQuery + kKv + 32 * (4 * 128 + 4) / 2) + kKv},
    {"two-level:2", "two levels", "K, V", 7 * kKv},
    {"mesh:2x4", "mesh, 2 x 4", "Q, K, V, states", 3 * (kQuery + kState) + kKv}};
//+

void lesson_19(Page& page) {
  page.picture("cube.svg", "Rows, heads and head_dim by rank: by rows, as Ulysses, as a hybrid");
  // No softmax is carried on or merged, so outputs are those of one machine to the last bit. And zigzag
  // isn't needed, because under a causal mask every head is the same work.
  //
  // ## Eight ways
  //
  // - **Ring**: K and V go round, always to the next rank, while all ranks compute.
  // - **Both ways** (`bidirectional`): half of a block goes round to the right, the other half to the
  //   left. Where each pair of neighbours has its own link, a hop takes half as long.
  // - **Pass-Q**: K and V stay. The queries go round, followed by their carried states.
  // - **All-gather**: all of K and V comes first; then each rank computes.
  // - **Ulysses**: ranks swap rows for heads, compute, and swap back.
  // - **Hybrid**: groups of U ranks swap, and a ring leads from group to group.
  // - **Two levels**: the ranks of a node form a ring, and meanwhile blocks cross to the next node.
  // - **Mesh**: the ranks are a grid of R rows and C columns. Queries come along a row, K and V along a
  //   column, and a rank attends each with each. The states are merged on their way home.
  page.picture("ways.svg", "Eight schemes on four ranks: what moves from rank to rank");

  // ## Bytes
  //
  // H query heads share G KV heads, of d numbers with e bytes each. A row's carried state has m
  // and d outputs in f32, and l in f64 (elsewhere often f32): Z = H (4 d + 12) bytes. For each of its c
  // rows a rank sends, forward:
  //
  //     ring, both ways, all-gather, two levels     (N-1) · 2G d e
  //     pass-Q      (N-1) · H d e  +  N · Z
  //     Ulysses     (N-1)/N · (2H + 2G) d e
  //     hybrid      (U-1)/U · ((H + 2G) d e + H (4 d + 4))  +  (N/U - 1) · 2G d e
  //     mesh        (C-1) · (H d e + Z)  +  · 2G d e
  //
  // In a hybrid a rank swaps (U-1)/U of its numbers within its group. Its block then has more rows of fewer
  // heads, is as large as before, and makes N/U - 1 hops. Its outputs still have to be merged, so they
  // return in f32, with lse. Ulysses needs at least as many query heads as ranks. KV heads that are fewer
  // than the ranks are copied, and cost as much as if G were N.
  //
  // Backward, a ring sends K and V once more, and gradients in f32: (N-1) · 2G d e + N · 8G d bytes per
  // row. An all-gather sends N-1 gradient blocks instead of N. Ulysses swaps dO there, and dQ, dK and dV
  // back. In memory a rank holds Q, its output in f32, m, l and lse, which are c H (d e + 4 d + 16) bytes,
  // and 2 blocks of K and V (N in an all-gather).
  page.predict("N = 8, H = 32, G = 8: a ring sends how many times the bytes of Ulysses?", "times",
               8 * 8 / double{32 + 8});
  Table moved({"8 ranks of 4,096 rows", "what moves", "forward", "backward", "held, forward"});
  bool as_formulas = true;
  for (const NamedScheme& s : kSchemes) {
    Problem job = on_8(s.scheme, 8 * 4096, 32, 8, "NVLink4").job;
    const double held = peak_bytes(job);
    job.backward = true;
    const Traffic sent = traffic_of(job, 0);
    as_formulas &= sent.forward_bytes == 4096 * 2 * s.forward &&
                   (&s != kSchemes || sent.backward_bytes == 4096 * 2 * (7 + 8 * 2) * kKv);
    moved.row(s.name, s.moves, bytes(sent.forward_bytes), bytes(sent.backward_bytes), bytes(held));
  }
  page.table(moved);

  // With grouped heads K and V are the small side, so schemes that send queries and their states send
  // more. Ulysses and the hybrid send less, because the bytes of a swap hardly grow with the ranks.
  //
  // ## Time
  //
  // Bytes that hide behind computing cost nothing. A ring's hops can hide. A swap of all heads at once
  // can't, because no head can begin before its rows have come. These are simulated times of one layer
  // forward, causal, on eight H100s (64 in E) at 0.65 of their peak (lesson 12), in five situations:
  //
  // - **A**: one node, NVLink, 65,536 tokens, 32 query heads and 8 KV heads.
  // - **B**: the same with 4,096 tokens. A rank has 512 rows, which is below the crossover.
  // - **C**: two nodes of four, with four InfiniBand cards each between them, 32,768 tokens.
  // - **D**: InfiniBand between all, 32,768 tokens, and 32 heads of each kind, so none are shared.
  // - **E**: InfiniBand between 64 ranks with 4,096 rows and one head each, because tensor parallel
  //   ranks (lesson 15) have the others. The mesh is 8 x 8.
  Table times({"ms", "A", "B", "C", "D", "E"});
  std::vector<double> ms[5];  // of a situation, by scheme
  for (const NamedScheme& s : kSchemes) {
    Scenario one_head = on_8(s.scheme, 64 * 4096, 1, 1, "InfiniBand-NDR");
    one_head.job.world_size = 64;
    if (s.scheme == std::string_view("mesh:2x4")) set_scheme(one_head.job, "mesh:8x8");
    std::vector<Cell> cells = {s.name};
    int i = 0;
    for (const Scenario& run :
         {on_8(s.scheme, 65536, 32, 8, "NVLink4"), on_8(s.scheme, 4096, 32, 8, "NVLink4"),
          on_8(s.scheme, 32768, 32, 8, "NVLink4", 2),
          on_8(s.scheme, 32768, 32, 32, "InfiniBand-NDR"), one_head}) {
      const bool can = !obstacle(run);
      ms[i].push_back(can ? 1e3 * run_scenario(run, work_of(run)).wall_s : HUGE_VAL);
      cells.push_back(can ? fixed(ms[i++].back(), 3) : (++i, Cell("impossible")));
    }
    times.add(cells);
  }
  std::string fastest;
  for (const auto& of : ms)
    fastest +=
        kSchemes[std::min_element(of.begin(), of.end()) - of.begin()].name + std::string("; ");
  const std::vector<double>& d = ms[3];
  const Scenario b = on_8("ring", 4096, 32, 8, "NVLink4");
  const double c_star = threshold_rows(b.job, b.rates, Pass::forward, 0.5);
  page.choose("Put them in order, the fastest in D first.",
              {"ring", "both ways", "Ulysses", "hybrid, U = 4"},
              letters_by({d[0], d[1], d[4], d[5]}));
  page.table(times);

  // - **A**: all hops are hidden, so all rings take as long as the computing. The plain ring holds the least.
  // - **B**: hops are exposed, and sending half a block each way exposes less.
  // - **C**: two levels give a crossing four steps of time (lesson 18).
  // - **D**: Ulysses sends a quarter of the ring's bytes, and nothing hides them. The hybrid sends more, and
  //   hides some.
  // - **E**: there are no heads to swap. A ring's bytes grow with N - 1, and a mesh's with 2 (√N - 1).
  //
  // (Each message has a link of its own here. With one port per rank, as behind an NVSwitch, both ways is
  // no faster than the ring, and the hybrid's swaps are slower.)
  //
  // On even shorter texts Ulysses is faster than the ring. Both take equally long where exposed hops
  // take as long as two swaps, with c* · (1 - (H + G) / (N G)) rows per rank. In A and B:
  page.value("c*, and rows where both take equally long",
             numbers({c_star, c_star * (1 - (32 + 8) / (8.0 * 8))}, 0));

  // ## Few queries, many keys
  //
  // Pass-Q never wins there, because there are as many queries as keys. But a conversation goes on with
  // a short question about a long text whose K and V are cached. A row of K and V is 2G d e = 4,096
  // bytes; a query and its state are H d e + Z = 24,960. Queries should travel if they are fewer than
  // about a sixth of the cached rows. Decode is the extreme (lesson 16).
  //
  // ## What to ask
  //
  // 1. Are there few queries and many cached keys? Take pass-Q.
  // 2. Does a rank have more rows than the crossover? Take a ring. It allows any number of heads.
  // 3. Are there several nodes? Take two levels, a hybrid with its groups inside them, or `multi-ring:R`.
  // 4. Are hops exposed all the same? Take Ulysses or a hybrid if K and V have enough heads and there are
  //    fewer rows than the break-even above; both ways if not; a mesh if there are many ranks.
  // 5. Must it be simple? Take the all-gather, while all of K and V fit. None of its transfers hide.
  //
  // `./ringscope simulate --sweep scheme=ring,ulysses,mesh:2x4` compares schemes, and
  // [bench/schemes.md](../../bench/schemes.md) has more jobs.
  //
  // ## On paper
  page.predict("N = 4, H = G = 8: which share of the ring's bytes does Ulysses send?", "%",
               100 * (3 / 4.0 * (2 * 8 + 2 * 8)) / (3 * 2 * 8));

  // ## Checks
  page.check("The formulas are what the loops send", as_formulas);
  page.equal("The fastest from A to E", fastest,
             "ring; both ways; two levels; hybrid, U = 4; mesh, 2 x 4; ");
  page.check("A row of K and V is 4,096 bytes, a query and its state 24,960",
             2 * kKv == 4096 && 2 * (kQuery + kState) == 24960);

  // ## Exercise
  //
  // Choose between a ring and Ulysses by their bytes and c*: `lessons/19_which_scheme/exercise.py`.
  // `./ringscope lesson 19 --check` tries copied KV heads, too few heads, and both sides of the break-even.
}

}  // namespace ringscope::lessons::chapter_19
