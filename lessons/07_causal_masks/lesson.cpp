// # Causal masks and the idle ranks
// > A token may look back but not ahead, which halves the work. A ring with one piece of text per
// > rank takes as long as before, because one rank still has all of its work.
//
// **You know** the ring of lesson 6, in which every query meets every key. **You will see** what
// happens when half of these pairs are forbidden: which rank has nothing to do, which has everything,
// and how much of a machine with eight ranks still works.
//
// ## Looking back only
//
// A model that writes text predicts each token from those before it. While it reads, token i may
// attend to keys j ≤ i only. That is the *causal mask*: row i of the scores has i + 1 numbers, and
// the rest of the row counts as -∞ (lesson 2), so its weights are 0.
//
//                keys 0 1 2 3
//     query 0         x
//     query 1         x x           pairs that are left:
//     query 2         x x x         4 · 5 / 2 = 10 of 16
//     query 3         x x x x
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_07 {
void lesson_07(Page& page) {
  // Half of the pairs mean half of the work. A single rank takes half the time, because the tiles of
  // lesson 4 that are wholly forbidden are skipped, and those on the diagonal are computed in part.
  //
  // ## The same on a ring
  //
  // Now let four ranks have one piece of the text each, in order, which is called contiguous. Rank 0's
  // queries come before all other ranks' keys, and rank 3's come after all of them.
  const Problem four = ring_job(1, 4096, 4, "causal");  // a head of 64, 4,096 tokens, 4 ranks
  //-
  const std::string meetings =
      drawing_of(4, 4, [&](int rank, int step) { return predicted_pairs(four, rank, step) > 0; });
  const auto work = [&](int rank) {
    const std::vector<Index> pairs = predicted_pairs(four, rank);
    return std::accumulate(pairs.begin(), pairs.end(), 0.0);
  };
  page.draw(
      "Draw the 16 meetings: a row for each rank, a column for each step, # where there is work.",
      meetings);
  page.choose("Who has the least work? Put all four in order.",
              {"rank 0", "rank 1", "rank 2", "rank 3"},
              letters_by({work(0), work(1), work(2), work(3)}));

  // The table has the pairs of each meeting, as a share of a full block. At step 0 a rank meets its own
  // block, a triangle, which is about a half. After that, it is all or nothing:
  page.table(pairs_table(four));

  // Rank 0 has no work after step 0. In this ring every block goes all the way, so rank 0 passes on
  // blocks that it has no use for. (`ringscope run` leaves such hops out: lesson 11.) Rank 3 never
  // rests, and the run takes as long as rank 3 does.
  //
  // ## How much is lost
  //
  // Say that a full block takes a time of 1. No rank has more work than rank N-1 in any step, and its
  // steps take N - ½ in all. All ranks together have work for N²/2. Shared evenly, that would be N/2 for
  // each. The ring thus reaches this share of the best possible speed:
  //
  //     (N/2) / (N - ½)  =  N / (2N - 1)
  //
  // In each step take the mean of the ranks' work, and the largest. The sum of the means, divided by the
  // sum of the maxima, is the *balance ceiling*. No ring whose ranks begin every step together is more
  // efficient.
  page.predict("What is it for eight ranks, in percent?", "%", 100 * 8 / 15.0);

  // The kernels count pairs, too. In runs of 4,096 tokens they counted:
  const AttentionInputs in = random_inputs(four.shape);
  Table runs({"ranks", "N / (2N - 1)", "counted in a run", "slowest rank / mean"});
  double off = 0;
  for (const int n : {1, 2, 4, 8}) {
    const RunSummary counted =
        summarize(run_on_threads(ring_job(1, 4096, n, "causal"), in).recording);
    runs.row(n, percent(n / (2.0 * n - 1)), percent(counted.balance_ceiling),
             fixed(counted.imbalance, 3));
    keep_larger(off, std::abs(counted.balance_ceiling - n / (2.0 * n - 1)));
  }
  page.table(runs);

  // The more ranks there are, the closer it is to one half: with a causal mask and contiguous ranks,
  // nearly half of the machine is idle. One rank alone takes half as long under this mask as without
  // it; a long ring takes nearly as long as without.
  //
  // ## In the viewer
  RingRun run = run_on_threads(four, in);
  page.trace(
      ideal_timeline(run.recording),
      {scene("Four ranks, a causal mask, one piece of text each. Look at the compute lanes: a "
             "staircase.",
             Figure::timeline),
       scene(
           "Step 1: rank 0 holds rank 3's block. All of its keys lie ahead: **nothing** to do. The "
           "others attend a full block, and rank 3 does so in every later step, too.",
           1, -1, Lane::compute),
       scene("The mask, by rank and owner: blocks are full below the diagonal, and empty above it.",
             Figure::mask, 1),
       scene("Pairs of each rank. The mean is what each would have if the work were shared evenly.",
             Figure::balance)});

  // A clock shows one thing more. Rank 0's own work is done after step 0, but it still receives blocks
  // and passes them on. Rank 3 sends it the last one when it is done with step 1, after 1½ of its 3½
  // block times. When that hop is over, at 4.2 of 9.4 ms in the pictures, rank 0 has finished. The
  // rank with the least work is thus not always the first to end: of eight ranks, simulated with fast links,
  // ranks 1 to 3 end together, and rank 0 later.
  //
  // The ring is right, but the tokens lie on the wrong ranks. Lesson 8 deals them out differently.
  //
  // ## On paper
  page.predict("16 ranks, contiguous: what is the balance ceiling?", "%",
               fixed(100 * 16 / 31.0, 1));
  page.predict("How many of the 64 meetings of 8 ranks are empty?", "", 8 * 7 / 2);
  page.predict("How many block times of work has rank 5 of 8?", "", 5.5);

  // ## Checks
  page.equal("6 of 16 meetings are empty", std::count(meetings.begin(), meetings.end(), '.'), 6);
  page.at_most("Runs of 1, 2, 4 and 8 ranks agree with N / (2N - 1)", off, 2e-3);
  //-
  Scenario eight = on_8("ring", 8 * 32768, 32, 32, "NVLink4");
  eight.job.partition = PartitionKind::contiguous;
  const std::vector<SimulatedRank> ranks =
      simulate({.job = eight.job, .pace = Pace::buffers}, work_of(eight), machine_of(eight)).ranks;
  page.check("Of eight ranks, 1 to 3 end before rank 0",
             ranks[1].end_s == ranks[3].end_s && ranks[3].end_s < ranks[0].end_s);

  // ## Exercise
  //
  // Give your ring a causal mask, in `my_ring/07_causal_masks.h`: count the keys that a query sees,
  // and compute no tile in vain. `./ringscope lesson 7 --check` prints the idle share. Then your steps, as
  // they are, can be the ring of a real run, verified and recorded as the project's own is:
  //
  //     ./ringscope run --backend my_ring --random --seqlen 512 --mask causal --verify --trace mine.json
  //     ./ringscope view mine.json
}

}  // namespace ringscope::lessons::chapter_07
