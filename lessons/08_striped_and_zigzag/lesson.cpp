// # Striped and zigzag: deals that keep all ranks busy
// > Deal the tokens out like cards, or in chunks from both ends. Then every meeting of two ranks has
// > work, all ranks have the same amount of it, and nobody idles.
//
// **You know** from lesson 7 that a causal ring with one piece of text per rank leaves half of the
// machine idle. **You will see** three other ways to deal out the text, why they give the same output,
// and what each of them costs.
//
// ## Cards instead of chapters
//
// Take four ranks and 16 tokens. Until now rank 0 had tokens 0 to 3, rank 1 had 4 to 7, and so on.
// Now deal the tokens out one by one:
//
//     rank 0    0  4  8 12          token p lies on rank p mod N,
//     rank 1    1  5  9 13          as its row number p div N
//     rank 2    2  6 10 14
//     rank 3    3  7 11 15
//
// This is the *striped* partition. The old one, in whole pieces, is called contiguous. A token now has
// two numbers: its position in the text, and its **local row**, which counts the rows of its rank.
// The mask compares positions. Nobody sends them, because they follow from a block's owner.
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_08 {
void lesson_08(Page& page) {
  const auto job = [](PartitionKind kind, int ranks = 4) {  // a head of 64 numbers, 4,096 tokens
    return ring_job(1, 4096, ranks, "causal", kind);
  };
  const Problem contiguous = job(PartitionKind::contiguous), striped = job(PartitionKind::striped),
                zigzag = job(PartitionKind::zigzag);

  // ## Two kinds of triangle
  //
  // Rank 2 meets the block of rank 1. Its row i is token 4i + 2, and their row j is token 4j + 1. The
  // mask allows 4j + 1 ≤ 4i + 2, which is j ≤ i. When rank 1 meets the block of rank 2, it allows
  // 4j + 2 ≤ 4i + 1, which is j < i. Every meeting is a triangle, with its diagonal or without:
  //
  //     owner ≤ rank        j ≤ i        c (c + 1) / 2 pairs         c = rows per rank
  //     owner > rank        j < i        c (c - 1) / 2 pairs
  page.draw(
      "Rank 1 meets the block of rank 3. Draw what its 4 rows may see: a row for each, a column "
      "for each key, # where it is allowed.",
      drawing_of(4, 4, [](int i, int j) { return 4 * j + 3 <= 4 * i + 1; }));

  // The two kinds differ by a diagonal, a thousandth of a block here. The table of lesson 7 becomes:
  page.table(pairs_table(striped));

  // No rank is idle, and none has a full block. A step takes the time of half a block, so four steps take
  // two block times. In lesson 7 they took ½ + 3.
  page.predict("Contiguous takes N - ½ block times, striped N/2. How many times faster at N = 8?",
               "times", 7.5 / 4);

  // In general it is (N - ½) / (N/2) = 2 - 1/N. In N - 1 of the N steps the slowest rank had a full
  // block and now has half of one. In step 0 it had a triangle and still has one, which takes away
  // the 1/N. Counted in runs, as in lesson 7:
  const AttentionInputs in = random_inputs(striped.shape);
  Table runs({"ranks", "contiguous: balance ceiling", "striped: balance ceiling", "times faster",
              "2 - 1/N"});
  double worst = 1, off = 0;
  for (const int n : {2, 4, 8}) {
    const auto ceiling = [&](PartitionKind kind) {
      return summarize(run_on_threads(job(kind, n), in).recording).balance_ceiling;
    };
    const double before = ceiling(PartitionKind::contiguous),
                 after = ceiling(PartitionKind::striped);
    runs.row(n, percent(before), percent(after, 2), fixed(after / before, 2),
             fixed(2 - 1.0 / n, 2));
    keep_larger(off, std::abs(after / before - (2 - 1.0 / n)));
    worst = std::fmin(worst, after);
  }
  page.table(runs);

  // ## Is it the same answer?
  //
  // Keys may come in any order (lesson 3), and rows of queries are independent (lesson 4). Tokens may
  // therefore lie anywhere, if the mask compares positions and the output is put back in order at the end.
  RingRun run = run_on_threads(striped, in);
  const double error =
      largest_difference(run.outputs.out, run_on_threads(contiguous, in).outputs.out);
  page.value("largest difference between the two partitions", rounding(error, 2e-6));
  page.trace(
      ideal_timeline(run.recording),
      {scene("The ring of lesson 7, with the tokens dealt out one by one. No staircase any more.",
             Figure::timeline),
       scene("Rank 0 was idle from step 1 on. Now it has half of a block, like everybody.", 1, 0,
             Lane::compute),
       scene("Pairs of each rank: level, but for one diagonal per step.", Figure::balance)});

  // ## Chunks from both ends
  //
  // An early token sees few keys, and a late one many. Cut the text into 2N chunks, and pair the
  // first with the last, the second with the last but one. This is the *zigzag* partition:
  //
  //     4 ranks, chunks 0 to 7        rank 0   0 7
  //                                   rank 1   1 6
  //                                   rank 2   2 5
  //                                   rank 3   3 4
  //
  // Rank 1 meets the block of rank 3, which has chunks 3 and 4. Chunk 1 comes before both, and chunk 6
  // after both. Half of the queries see the whole block, and the other half see nothing.
  page.predict("Rank 3 meets the block of rank 1. Which share of the pairs is allowed?", "%",
               100 * static_cast<double>(predicted_pairs(zigzag, 3, 2)) / (1024.0 * 1024.0));

  // It is half again, but another half: all queries see the first half of the keys. In general:
  //
  //     owner < rank     all queries see the first half of the keys
  //     owner > rank     the second half of the queries sees all keys
  //     owner = rank     j ≤ i, a triangle: the rank's own block
  //
  // The first two are rectangles, in which no pair needs a mask: a kernel just gets fewer rows. Only
  // step 0 has a diagonal. In all three cases a rank has half a block of work, so zigzag takes N/2
  // block times, too, and is 2 - 1/N times as fast as contiguous ranks. (If the length is not a
  // multiple of 2N, chunks differ by one token, and so do ranks: of 1,003 tokens on eight ranks, ranks
  // 0 to 4 have 125, and the others 126.)
  RingRun in_chunks = run_on_threads(zigzag, in);
  page.trace(
      ideal_timeline(in_chunks.recording),
      {scene("Four ranks, zigzag. All compute lanes are equally long.", Figure::timeline),
       scene("Step 0, the rank's own two chunks: the only diagonal of the run.", Figure::mask, 0),
       scene("Step 1: rank 1 meets rank 0's block with all queries, but half of the keys. Rank 0 "
             "meets rank 3's with half of the queries, and all of the keys. That is equal work, in "
             "rectangles: no tile is computed in vain.",
             Figure::mask, 1)},
      "zigzag");

  // Striping can be mended, too. It gives the last rank the last card of every round. To even that out,
  // deal every other round backwards: here that is called **fold**. (Some texts call it zig-zag.)
  // Counted in pairs, three of the four are practically even. But a kernel computes whole tiles, and
  // throws away half of each tile on the diagonal. The table is for 8 ranks, with 4,096 tokens where it
  // counts pairs, and 32,768 where it counts tiles of 128 by 128. There a rank's pairs would fill 4,096
  // tiles:
  Table deals({"partition", "pairs of the slowest rank / mean", "balance ceiling, step by step",
               "tiles of the slowest rank"});
  std::vector<double> ceilings;
  for (const auto kind : {PartitionKind::contiguous, PartitionKind::striped, PartitionKind::fold,
                          PartitionKind::zigzag}) {
    const RunSummary summary = summarize(run_on_threads(job(kind, 8), in).recording);
    ceilings.push_back(summary.imbalance > 1.001 ? 0 : summary.balance_ceiling);
    Problem longer = job(kind, 8);
    longer.shape.seqlen = 8 * 4096;
    deals.row(std::string(name_of(kind)), fixed(summary.imbalance, 4),
              percent(summary.balance_ceiling, 2), tiles_of_slowest_rank(longer, 128));
  }
  const Partition uneven{PartitionKind::zigzag, 1003, 8};
  page.table(deals);

  // ## What it costs
  //
  // The text is dealt out before the first layer and collected after the last, once for the whole
  // model. All other parts of a model work on one token at a time, so the order doesn't matter to them.
  // But striping separates neighbours, which is bad for masks that depend on distance (lesson 11);
  // zigzag keeps most neighbours together. Measured rings gain less than 2 - 1/N, because each step also
  // has a cost that doesn't depend on its pairs: forward on eight H800, published ones gain 1.64 times by
  // zigzag and 1.43 by striping, not 1.875 ([the scoreboard](../../bench/published/scoreboard.md)).
  //
  // ## Checks
  page.equal("The triangles differ by 1,024 pairs",
             predicted_pairs(striped, 2, 1) - predicted_pairs(striped, 1, 3), 1024);
  page.check("Striped reaches more than 99.8 % at 2, 4 and 8 ranks", worst > 0.998);
  page.at_most("Counts are 2 - 1/N, but for diagonals", off, 0.01);
  page.at_most("The output is that of the contiguous ring", error, 2e-6);
  page.equal("Rank 3 meets half of rank 1's block", predicted_pairs(zigzag, 3, 2), 1024 * 1024 / 2);
  page.check("Fold and zigzag are even to a thousandth in total, and to a hundredth step by step",
             ceilings[2] > 0.99 && ceilings[3] > 0.99);
  page.check("Of 1,003 tokens rank 4 has 125 and rank 5 has 126",
             uneven.rows_of(4).size() == 125 && uneven.rows_of(5).size() == 126);

  // ## Exercise
  //
  // Say which positions a zigzag rank has: `my_ring/08_striped_and_zigzag.h`. Nothing else has to change:
  // `./ringscope lesson 8 --check` runs your causal ring on them, and its idle share falls to 0.
}

}  // namespace ringscope::lessons::chapter_08
