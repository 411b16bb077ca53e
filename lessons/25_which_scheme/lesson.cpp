// # Which scheme? An atlas
// > Every scheme brings each query to each key once. They differ in what moves, over which wires,
// > and in what has to wait; heads, rows and links decide between them.
//
// **You know** the ring and the all-gather (lesson 5), grouped heads (28), the crossover (12), Ulysses
// and the hybrid (21), and the two-level ring (22). **You will see** all eight schemes of this project
// side by side: what moves, how many bytes, how long that takes in five situations, and what to ask
// before you choose.
//
// ## Eight ways
//
// Each rank begins with c rows of Q, K and V. Then either side can move to the other:
//
// - **Ring**: K and V go round, always to the next rank, while all ranks compute.
// - **Both ways** (`bidirectional`): half of a block goes round to the right, the other half to the
//   left. Where every pair of neighbours has a link of its own, a hop takes half as long.
// - **Pass-Q**: K and V stay. The queries go round, and behind them their carried states (lesson 3),
//   which are f32.
// - **All-gather**: all of K and V comes first; then each rank computes.
// - **Ulysses**: ranks swap rows for heads, compute, and swap back.
// - **Hybrid**: groups of U ranks swap, and a ring leads from group to group.
// - **Two levels**: the ranks of a node form a ring, and meanwhile blocks cross to the next node.
// - **Mesh**: the ranks are a grid of R rows and C columns. Queries come along a row, K and V along a
//   column, and a rank attends each with each: N meetings, but blocks of R + C - 1 ranks only. The
//   states are merged on their way home.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lessons/book/page.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_25 {
//-
struct NamedScheme {
  const char *scheme, *name, *moves;
  double forward;  // values of 16 bits that 8 ranks send for a row of 128, 32 heads and 8 kv heads
};

// In these terms: a hop of K and V, a query, and its state of 4 d + 12 bytes a head.
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

void lesson_25(Page& page) {
  page.picture("ways.svg", "Eight schemes on four ranks: what moves from rank to rank");

  // ## Bytes
  //
  // H query heads share G heads of K and V; d is head_dim, e the bytes of a number. A row's state
  // has m in 4 bytes, l in 8 (f64 here, f32 elsewhere), and d numbers of 4: with all heads that is
  // Z = H (4 d + 12) bytes. For each of its c rows a rank sends, forward:
  //
  //     ring, both ways, all-gather, two levels     (N-1) · 2G d e
  //     pass-Q      (N-1) · H d e  +  N · Z
  //     Ulysses     (N-1)/N · (2H + 2G) d e
  //     hybrid      (U-1)/U · ((H + 2G) d e + H (4 d + 4))  +  (N/U - 1) · 2G d e
  //     mesh        (C-1) · (H d e + Z)  +  · 2G d e
  //
  // (The hybrid returns its outputs in f32 with their lse, since they are merged: 100.4 MiB where lesson
  // 21's formula, with 16 bits, has 76. Ulysses is counted as returning 16 bits.)
  page.predict("N = 8, H = 32, G = 8, d = 128, e = 2. Pass-Q sends how many times a ring's bytes?",
               "times", (7 * kQuery + 8 * kState) / (7 * kKv));
  //-
  Table moved({"8 ranks of 4,096 rows", "what moves", "forward", "backward", "held, forward"});
  bool as_formulas = true;
  for (const NamedScheme& s : kSchemes) {
    Problem job = on_8(s.scheme, 8 * 4096, 32, 8, "NVLink4").job;
    const double held = peak_bytes(job);
    job.backward = true;
    const Traffic sent = traffic_of(job, 0);
    as_formulas &= sent.forward_bytes == 4096 * 2 * s.forward;
    moved.row(s.name, s.moves, bytes(sent.forward_bytes), bytes(sent.backward_bytes), bytes(held));
  }
  //+
  page.table(moved);

  // With grouped heads K and V are the small side, so whatever sends queries and f32 states round sends
  // more. Ulysses and the hybrid send less than a ring, because their bytes don't grow with N - 1.
  //
  // ## Time
  //
  // Bytes that hide behind computing cost nothing. These are simulated times of one layer forward,
  // causal, on H100 (eight, in E 64) at 0.65 of their peak (lesson 12), in five situations:
  //
  // - **A**: one node, NVLink, 65,536 tokens, 32 query heads and 8 of K and V.
  // - **B**: the same with 4,096 tokens. A rank has 512 rows, which is below the crossover.
  // - **C**: two nodes of four, with four InfiniBand cards each between them, 32,768 tokens.
  // - **D**: InfiniBand between all, and 32 heads of K and V: no groups.
  // - **E**: InfiniBand between 64 ranks, 4,096 rows each, which have one head: tensor parallel ranks
  //   (lesson 17) have the others. The mesh is 8 x 8.
  //-
  Table times({"ms", "A", "B", "C", "D", "E"});
  std::vector<double> ms[5];  // of a situation, by scheme
  for (const NamedScheme& s : kSchemes) {
    Scenario one_head = on_8(s.scheme, 64 * 4096, 1, 1, "InfiniBand-NDR");
    one_head.job.world_size = 64;
    if (one_head.job.scheme == Scheme::mesh) one_head.job.grid_rows = one_head.job.grid_columns = 8;
    std::vector<Cell> cells = {s.name};
    int i = 0;
    for (const Scenario& one :
         {on_8(s.scheme, 65536, 32, 8, "NVLink4"), on_8(s.scheme, 4096, 32, 8, "NVLink4"),
          on_8(s.scheme, 32768, 32, 8, "NVLink4", 2),
          on_8(s.scheme, 32768, 32, 32, "InfiniBand-NDR"), one_head}) {
      const bool can = !obstacle(one);
      ms[i].push_back(can ? 1e3 * run_scenario(one, work_of(one)).wall_s : HUGE_VAL);
      cells.push_back(can ? fixed(ms[i].back(), 3) : Cell("impossible"));
      ++i;
    }
    times.add(cells);
  }
  const auto fastest = [&ms](int situation) {  // the first of them
    const std::vector<double>& all = ms[situation];
    return kSchemes[std::min_element(all.begin(), all.end()) - all.begin()].name;
  };
  const std::vector<double>& d = ms[3];
  const auto bytes_in_d = [](const char* scheme) {
    return traffic_of(on_8(scheme, 32768, 32, 32, "NVLink4").job, 0).forward_bytes;
  };
  const Scenario b = on_8("ring", 4096, 32, 8, "NVLink4");
  //+
  page.choose("Put them in order, the fastest in D first.",
              {"ring", "both ways", "Ulysses", "hybrid, U = 4"},
              letters_by({d[0], d[1], d[4], d[5]}));
  page.table(times);

  // In **A** all hops are hidden, so all rings take as long as the computing, and the plain one
  // holds least. In **B** they are exposed, and half a block each way leaves less of a hop exposed.
  // In **C** two levels cross once in four steps (lesson 22). In **D** Ulysses sends a quarter of
  // the ring's bytes, and nothing hides them; the hybrid sends more, and hides some. In **E** there
  // are no heads to swap. A ring's bytes grow with N - 1, and a mesh's with 2 (√N - 1). (What it
  // costs to start a message is not counted; on one node two levels are a ring. Messages to
  // different ranks are simulated as if each had a link of its own, but for Ulysses, which has one.
  // With one port a rank, as behind an NVSwitch or with one network card, both ways is no faster
  // than the ring, and the hybrid takes at least 3.87 ms in D.)
  //
  // ## Few queries, many keys
  //
  // Pass-Q never wins there, because queries and keys are equally many. A conversation goes on with
  // a short question about a long text whose K and V are cached. A row of K and V is 2G d e = 4,096
  // bytes; a query and its state are H d e + Z = 24,960. So queries travel if there are fewer
  // than about a sixth as many as cached rows. Decode (lesson 18) is the extreme case, with one query.
  //
  // ## What to ask
  //
  // 1. Are there few queries beside many cached keys? Take pass-Q.
  // 2. Has a rank more rows than the crossover? Take a ring. It allows any number of heads.
  // 3. Does it lead over several nodes? Take two levels, or a hybrid with its groups inside the nodes.
  // 4. Are hops exposed all the same? Take Ulysses or a hybrid while the heads of K and V suffice;
  //    both ways if they don't; a mesh if there are many ranks.
  // 5. Must it be simple, with any kernel? Take the all-gather, while all of K and V fit. None of
  //    its transfers hide.
  //
  // `./ringscope simulate --scheme all` compares ring, all-gather, Ulysses and, on several nodes, two
  // levels; `--scheme mesh:2x4` tries any other. [bench/schemes.md](../../bench/schemes.md) has six more jobs, backward included, and runs.
  //
  // ## Checks
  page.check("The formulas are what the loops send", as_formulas);
  page.equal("A: the ring is fastest", fastest(0), "ring");
  page.equal("B: both ways", fastest(1), "both ways");
  page.equal("C: two levels", fastest(2), "two levels");
  page.equal("D: the hybrid", fastest(3), "hybrid, U = 4");
  page.equal("E: the mesh", fastest(4), "mesh, 2 x 4");
  page.equal("D: Ulysses sends a quarter of the ring's bytes", 4 * bytes_in_d("ulysses"),
             bytes_in_d("ring"));
  page.check("B is below the crossover", threshold_rows(b.job, b.rates, Pass::forward, 0.5) > 512);
  page.equal("A row of K and V is 4,096 bytes", 2 * kKv, 4096);
  page.equal("A query and its state are 24,960", 2 * (kQuery + kState), 24960);

  // ## Exercise
  //
  // Write which side should travel, for any number of queries and cached keys, and find a mesh's
  // best grid: `lessons/25_which_scheme/exercise.h`, tried by `./ringscope lesson 25 --check`.
}

}  // namespace ringscope::lessons::chapter_25
