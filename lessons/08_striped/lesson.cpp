// # Striped: every rank gets some of everything
// > Deal the tokens out like cards, and every meeting of two ranks has work: nobody idles.
//
// **You know** from lesson 7 that a causal ring with one piece of text a rank leaves half of the
// machine idle. **You will see** the simplest way to share the text differently, why its output is
// the same, and what fine print comes with it.
//
// ## Cards instead of chapters
//
// There are four ranks and 16 tokens. Until now rank 0 had tokens 0 to 3, rank 1 had 4 to 7, and so
// on. Now the tokens are dealt out one by one:
//
//     rank 0    0  4  8 12          token p lies on rank p mod N,
//     rank 1    1  5  9 13          as its row number p div N
//     rank 2    2  6 10 14
//     rank 3    3  7 11 15
//
// This is the *striped* partition. The other one, in whole pieces, is called contiguous. A token
// now has two numbers: where it stands in the text, its position, and which row of its rank it is,
// its *local row*. The mask asks for positions. They need not be sent along with a block, because
// they follow from its owner.
#include <cmath>

#include "core/run/run.h"
#include "core/trace/summary.h"
#include "lessons/book/page.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_08 {

void lesson_08(Page& page) {
  Problem config = ring_job(1, 4096, 4, "causal");  // a head of 64, 4,096 tokens, 4 ranks
  const Problem contiguous = config;
  config.partition = PartitionKind::striped;

  // ## Two kinds of triangle
  //
  // Rank 2 meets the block of rank 1. Its row i is token 4i + 2, their row j is token 4j + 1. The
  // mask allows 4j + 1 ≤ 4i + 2, which is j ≤ i. The other way round, when rank 1 meets the block
  // of rank 2, it allows 4j + 2 ≤ 4i + 1, which is j < i. So every meeting is a triangle, with its
  // diagonal or without:
  //
  //     owner ≤ rank        j ≤ i        c (c + 1) / 2 pairs         c = rows of a rank
  //     owner > rank        j < i        c (c - 1) / 2 pairs
  page.draw(
      "Rank 1 meets the block of rank 3. Draw what its 4 rows may see: a row for each, a column "
      "for each key, # where it is allowed.",
      drawing_of(4, 4, [](int i, int j) { return 4 * j + 3 <= 4 * i + 1; }));
  const Guess guess = page.predict(
      "With 1,024 rows a rank, by how many pairs do the two kinds of triangle differ?", "pairs");
  const Index with = predicted_pairs(config, 2, 1);     // rank 2 meets rank 1's block at step 1
  const Index without = predicted_pairs(config, 1, 3);  // rank 1 meets rank 2's block at step 3
  page.answer(guess, static_cast<double>(with - without));

  // They differ by a diagonal, a thousandth of a block. The table of lesson 7 becomes:
  page.table(pairs_table(config));

  // No rank is idle, and none has a full block. A step takes half a block's time now, so four steps
  // take the time of two blocks, where lesson 7 took ½ + 3. How much faster is that, for many
  // ranks?
  page.predict("Contiguous takes N - ½ block times, striped N/2. How many times faster at N = 8?",
               "times", 7.5 / 4);

  // In general it is (N - ½) / (N/2) = 2 - 1/N. In N - 1 steps of N the slowest rank had a full block,
  // and has half of one: 2 times. In step 0 it had a triangle, and has one now: nothing is gained
  // there, and that takes away 1/N.
  //
  // The last rank has the most: a triangle with its diagonal at every step. An even share would be
  // a hair less. Counted in runs, as in lesson 7, the ceilings are:
  const AttentionInputs in = random_inputs(config.shape);
  //-
  Table runs({"ranks", "contiguous: balance ceiling", "striped: balance ceiling", "times faster",
              "2 - 1/N"});
  double worst = 1, gain_at_8 = 0, off = 0;
  for (const int n : {2, 4, 8}) {
    Problem one = contiguous, other = config;
    one.world_size = other.world_size = n;
    const RunSummary before = summarize(run_on_threads(one, in).recording);
    const RunSummary after = summarize(run_on_threads(other, in).recording);
    gain_at_8 = after.balance_ceiling / before.balance_ceiling;
    runs.row(n, percent(before.balance_ceiling), percent(after.balance_ceiling, 2),
             fixed(gain_at_8, 2), fixed(2 - 1.0 / n, 2));
    keep_larger(off, std::abs(gain_at_8 - (2 - 1.0 / n)));
    worst = std::fmin(worst, after.balance_ceiling);
  }
  //+
  page.table(runs);

  // That is by count of pairs. A clock may show less, because a kernel works in tiles (lesson 4): a
  // tile on the diagonal is computed in whole or in good part, though half of it is thrown away. In
  // a striped ring every meeting has a diagonal, in a contiguous one only step 0. Take tiles of 128
  // by 128, 8 ranks and 4,096 rows a rank: a rank computes 4,224 tiles, and 4,096 would hold its
  // pairs.
  const Index tiles_a_side = 4096 / 128;
  const Index computed = 8 * tiles_a_side * (tiles_a_side + 1) / 2;
  const Index ideal = 8 * tiles_a_side * tiles_a_side / 2;
  page.value("tiles that a rank computes, all steps", computed);
  page.value("tiles' worth of pairs", ideal);

  // That is 3 % too much here. With short blocks it is more.
  //
  // ## Is it the same answer?
  //
  // Attention does not care in which order its keys come (lesson 3), and rows of queries are
  // independent (lesson 4). So tokens may lie where they like, as long as the mask asks for
  // positions, and the output is put back in order at the end.
  const auto one_piece = run_on_threads(contiguous, in).outputs;
  RingRun run = run_on_threads(config, in);
  const double error = largest_difference(run.outputs.out, one_piece.out);
  page.value("largest difference between the two partitions", rounding(error, 2e-6));
  //-
  const std::vector<StoryStep> story = {
      scene("The ring of lesson 7, with the tokens dealt out one by one. No staircase any more.",
            Figure::timeline),
      scene("Rank 0 was idle from step 1 on. Now it has half of a block, like everybody.", 1, 0,
            Lane::compute),
      scene("The mask as rank and owner see it: each square is a triangle.", Figure::mask, 1),
      scene("Pairs of each rank: level, but for one diagonal a step.", Figure::balance)};
  //+
  page.ring_trace(std::move(run.recording), story);

  // ## What it costs
  //
  // The text has to be dealt out before the first layer and collected after the last, once for the
  // whole model. Everything in a model but attention works on one token at a time, and does not
  // mind. But neighbouring tokens are no longer neighbours in memory, which is bad for masks that
  // go by neighbourhood (lesson 11). Lesson 9 has ways in between.
  //
  // ## Checks
  page.equal("The triangles differ by 1,024 pairs", with - without, 1024);
  page.check("Striped reaches more than 99.8 % at 2, 4 and 8 ranks", worst > 0.998);
  page.equal("At eight ranks it is 1.87 times faster, by count", fixed(gain_at_8, 2), "1.87");
  page.at_most("Counts are 2 - 1/N, but for diagonals", off, 0.01);
  page.equal("4,224 tiles are computed for 4,096 tiles' worth", computed - ideal, 4224 - 4096);
  page.at_most("The output is that of the contiguous ring", error, 2e-6);

  // ## Exercise
  //
  // Deal the text in stripes of several tokens, as one deals cards two or three at a time. Write
  // which rank has a token, as which row, and the way back; and whether local row i of one rank may
  // attend row j of another: `lessons/08_striped/exercise.h`, tried by `./ringscope lesson 8 --check`.
}

}  // namespace ringscope::lessons::chapter_08
