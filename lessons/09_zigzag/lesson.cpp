// # Zig-zag: chunks from both ends
// > A deal in which all ranks have the same work in every step. After the first step no block needs
// > a mask, and most neighbours stay neighbours.
//
// **You know** from lesson 8 that dealing tokens out like cards balances a causal ring, with a
// triangle in every meeting. **You will see** two other ways to deal. One keeps long pieces of text
// together, and it is what most rings in use today do.
//
// ## An early chunk and a late one
//
// An early token sees few keys, a late one many. Cut the text into 2N chunks, and pair them up, the
// first with the last, the second with the last but one.
//
//     4 ranks, chunks 0 to 7        rank 0   0 7
//                                   rank 1   1 6
//                                   rank 2   2 5
//                                   rank 3   3 4
//
// This is the *zigzag* partition.
#include <cmath>

#include "core/run/run.h"
#include "core/trace/summary.h"
#include "lessons/book/page.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_09 {
void lesson_09(Page& page) {
  // ## Three kinds of meeting
  //
  // A meeting of two ranks is two chunks of queries with two chunks of keys. Rank 1 has chunks 1
  // and 6, and meets the block of rank 3, with chunks 3 and 4: chunk 1 comes before both, chunk 6
  // after both. So half of the queries see the whole block, and the other half see nothing.
  const Guess guess = page.predict(
      "Rank 3 meets the block of rank 1. Which share of the pairs is allowed, in percent?", "%");
  const Problem zigzag = ring_job(1, 4096, 4, "causal", PartitionKind::zigzag);
  const double block = 1024.0 * 1024.0;
  page.answer(guess, 100 * static_cast<double>(predicted_pairs(zigzag, 3, 2)) / block);

  // It is half again, but another half: chunk 1 of the keys comes before all of rank 3's queries,
  // chunk 6 after all of them. In general:
  //
  //     owner < rank     all queries see the first half of the keys
  //     owner > rank     the second half of the queries sees all keys
  //     owner = rank     j ≤ i, a triangle: the rank's own block
  //
  // The first two are rectangles. No pair in them needs a mask; a kernel just gets fewer rows. Only
  // step 0 has a diagonal. Every rectangle is half a block, so a run takes N/2 block times, as striped
  // ranks do, and is 2 - 1/N times as fast as contiguous ones (lesson 8): 1.875 times on eight.
  // Measured rings gain less: a published one on eight H800 1.64 times, forward, since each step also
  // has a cost that doesn't depend on its pairs ([the scoreboard](../../bench/published/scoreboard.md)).
  page.table(pairs_table(zigzag));

  // ## To and fro
  //
  // Dealing cards can be mended, too. Striped gives the last rank the last card of every round. To
  // even that out, deal every other round backwards, as when two captains pick teams:
  //-
  const std::vector<PartitionKind> kinds = {PartitionKind::contiguous, PartitionKind::striped,
                                            PartitionKind::fold, PartitionKind::zigzag};
  //+
  //-
  std::vector<std::string> head = {""};
  for (const PartitionKind kind : kinds) head.emplace_back(name_of(kind));
  Table dealt(head);
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<Cell> cells = {fmt::format("rank {}", rank)};
    for (const PartitionKind kind : kinds) {
      const LocalRows rows = Partition{kind, 16, 4}.rows_of(rank);
      std::string text;
      for (Index i = 0; i < rows.size(); ++i) text += fmt::format("{:3}", rows.global_position(i));
      cells.push_back(text);
    }
    dealt.add(cells);
  }
  //+
  page.table(dealt);

  // Here it is called *fold*: the row of tokens is folded to and fro over the ranks. Take care when
  // reading elsewhere: some texts call this one zig-zag. Token by token or chunk by chunk, both are
  // balanced over a whole run, and at every step too:
  //-
  Table steps({"8 ranks", "pairs of the slowest rank / mean", "balance ceiling, step by step"});
  double worst_total = 1, worst_ceiling = 1;
  const AttentionInputs in = random_inputs(zigzag.shape);
  for (const auto kind : kinds) {
    const RunSummary run =
        summarize(run_on_threads(ring_job(1, 4096, 8, "causal", kind), in).recording);
    steps.row(std::string(name_of(kind)), fixed(run.imbalance, 4), percent(run.balance_ceiling, 2));
    if (kind != PartitionKind::fold && kind != PartitionKind::zigzag) continue;
    worst_total = std::fmax(worst_total, run.imbalance);
    worst_ceiling = std::fmin(worst_ceiling, run.balance_ceiling);
  }
  //+
  page.table(steps);

  // By pairs, three of the four are practically even. But a kernel computes tiles (lesson 8). With
  // 8 ranks of 4,096 rows and tiles of 128 by 128, the slowest rank computes this many:
  //-
  Problem longer = ring_job(1, 4096, 8, "causal", PartitionKind::zigzag);
  longer.shape.seqlen = 8 * 4096;
  Table work({"partition", "tiles of the slowest rank"});
  std::vector<Index> slowest;
  for (const auto kind : kinds) {
    longer.partition = kind;
    slowest.push_back(tiles_of_slowest_rank(longer, 128));
    work.row(std::string(name_of(kind)), slowest.back());
  }
  //+
  page.table(work);

  // The ideal is 4,096 tiles. Zigzag has a diagonal once, striped and fold have one at every step.
  //
  // (If the length doesn't divide, chunks differ by one token, and so do ranks: of 1,003 tokens on eight
  // ranks, ranks 0 to 4 have 125 and the others 126. A rank knows every owner's rows by formula, so nothing
  // is sent about them, and buffers have room for the most.)
  RingRun run = run_on_threads(zigzag, in);
  //-
  const Partition uneven{PartitionKind::zigzag, 1003, 8};
  const std::vector<StoryStep> story = {
      scene("Four ranks, zigzag. All compute lanes are equally long.", Figure::timeline),
      scene("Step 0, the rank's own two chunks: the only diagonal of the run.", Figure::mask, 0),
      scene("Step 1: rank 1 meets rank 0's block with all queries, but half of the keys. Rank 0 "
            "meets "
            "rank 3's with half of the queries, and all of the keys. That is equal work, and in "
            "rectangles: no tile is computed in vain.",
            Figure::mask, 1)};
  //+
  page.ring_trace(std::move(run.recording), story);

  // ## Checks
  page.equal("Rank 3 meets half of rank 1's block", predicted_pairs(zigzag, 3, 2), 1024 * 1024 / 2);
  page.check("Fold and zigzag are even to a thousandth, in total", worst_total < 1.001);
  page.check("and step by step to a hundredth", worst_ceiling > 0.99);
  page.check("Of 1,003 tokens rank 4 has 125 and rank 5 has 126",
             uneven.rows_of(4).size() == 125 && uneven.rows_of(5).size() == 126);
  page.equal("Zigzag: 4,112 tiles", slowest[3], 4112);
  page.equal("Striped: 4,224 tiles", slowest[1], 4224);
  page.equal("Contiguous: 7,696 tiles", slowest[0], 7696);

  // ## Exercise
  //
  // Say which positions a zigzag rank has: `my_ring/09_zigzag.h`. `./ringscope lesson 9 --check` runs
  // your causal ring on them. Nothing else has to change, and its idle share falls to nothing.
}

}  // namespace ringscope::lessons::chapter_09
