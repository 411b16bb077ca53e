// # Many ranks: all-gather or ring
// > Split the sequence over N machines. Queries stay, and keys and values must meet all of them.
// > Fetching everything first, or passing it round while computing, moves the same number of bytes, but
// > the two differ in memory and time.
//
// **You know** from lesson 4 that a block of queries can meet the KV blocks one at a time, in any
// order. **You will see** the sequence split over several machines, two ways to bring all KV blocks
// to all queries, and what each of them costs.
//
// ## Who holds what
//
// Each of N workers is a *rank*: a processor with its own memory, numbered from 0. N is called
// *world_size*. A sequence of S tokens is split evenly, and each rank keeps its S/N rows of Q, K, V and
// out. A row of out needs its own query, and that is at home already. But it needs every key and value,
// and a rank has only 1/N of those. The rest must come over a wire:
//
//     rank 0 has   Q0   K0 V0     and needs   K1 V1   K2 V2   K3 V3
//     rank 1 has   Q1   K1 V1     and needs   K0 V0   K2 V2   K3 V3
//     ...
//
// Queries could travel instead, but a query with its state has 2 d + 2 numbers, and a row of K and V
// has 2 d. Also, models often have fewer KV heads than query heads (lesson 10). Therefore K and V travel.
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_05 {
void lesson_05(Page& page) {
  // ## How much must travel
  Problem config = ring_job(4, 4096, 4);  // 4 heads of 64, 4,096 tokens, 4 ranks

  // Take 4,096 tokens, 4 heads, head_dim 64, and four bytes per number. All of K and V are then 2 · 4 ·
  // 4,096 · 64 · 4 bytes = 8 MiB, and each rank begins with a quarter of them.
  const Guess guess = page.predict("How much must every rank receive from others?", "MiB");
  const double all_kv = 2.0 * 4 * 4096 * 64 * 4, missing = all_kv * 3 / 4;
  page.answer(guess, missing / 0x1p20);

  // That holds wherever queries stay where they are. (If heads are swapped for rows, less travels:
  // lesson 19.) Here are two ways.
  //
  // **All-gather**: first every rank fetches all blocks that it lacks, then it computes, as if it
  // were alone with its queries. **Ring**: every rank computes with the block it has, passes it on
  // to its neighbour, and gets the next block from its other neighbour meanwhile. After N - 1
  // hops every rank has met every block. In this project one word of a run's configuration chooses
  // between the two. Ranks are threads here, and blocks are really copied from one to the other:
  const AttentionInputs in = random_inputs(config.shape);
  RingRun ring = run_on_threads(config, in);
  config.scheme = scheme_named("allgather");
  const RingRun gather = run_on_threads(config, in);
  //-
  const auto held = [](const RingRun& run) { return static_cast<double>(run.peak_bytes[1]); };
  Table both({"", "all-gather", "ring"});
  both.row("bytes sent per rank", bytes(bytes_sent(gather, 1)), bytes(bytes_sent(ring, 1)));
  both.row("KV blocks held at once per rank", 4, 2);
  const auto mib = [&](const RingRun& run) { return fixed(held(run) / 0x1p20, 3).shown + " MiB"; };
  both.row("all memory held per rank", mib(gather), mib(ring));
  page.table(both);

  // Both send the same number of bytes. (Beside its blocks a rank holds Q and the output, 1 MiB each,
  // and 0.250 MiB for m, l, lse and the scratch of lesson 4.) But the all-gather holds all of K and V
  // on every rank, and that does not shrink when ranks are added. The ring holds two blocks, the one
  // that it attends and the one that is coming in, and with more ranks these get smaller. With a
  // million tokens and the sizes of a real model (8 KV heads, head_dim 128, bf16: two bytes per
  // number) they hold:
  Table growth({"ranks", "all-gather holds", "ring holds (two blocks)"});
  const double real_kv = 2.0 * 1048576 * 8 * 128 * 2;  // 8 KV heads, head_dim 128, two bytes
  for (const Index n : {4, 16, 64})
    growth.row(n, bytes(real_kv), bytes(2 * real_kv / static_cast<double>(n)));
  page.table(growth);

  // That is one layer's K and V. On memory, the ring wins.
  //
  // ## What happens when
  //
  // Both runs were recorded. A rank's row in the recording has four lanes: when it computes, when it
  // sends, when it receives, and when it can do nothing but wait. Ranks that share the cores of your
  // machine take turns, which is not how a real ring looks. The pictures therefore show the times that the
  // counted work and bytes would take if each rank had a core of 100 GFLOP/s and a link of 2.5 GB/s.
  page.trace(
      ideal_timeline(ring.recording),
      {scene("Four ranks, one ring. Each rank has four lanes: **compute**, send, recv and wait. A "
             "slice's colour is that of the block's owner. In step 0 every rank attends its own.",
             Figure::timeline),
       scene("Rank 1 receives rank 0's block while it computes with its own. In step 3 all ranks "
             "have met all blocks, and nothing is sent any more.",
             0, 1, Lane::recv)});

  // In the all-gather's recording all transfers come first, and the computing begins when the last
  // block is there. In the ring's, only the first block has to be there, and the rank has it already.
  // Whether the others arrive in time is a question of speed, and the subject of the next lesson.
  //
  // ## Nothing but rounding
  //
  // Carrying on over blocks is exact (lesson 3), so both ways give the output of lesson 1. Let rank 0
  // have the first two of lesson 3's four keys, and rank 1 the others. A query of rank 1 meets keys 1
  // to 4 in an all-gather, and 3, 4, 1, 2 in a ring. Both give 36.88. And of 512 tokens, every row:
  config.shape.seqlen = 512;
  const AttentionInputs few = random_inputs(config.shape);
  const auto exact = exact_attention(config, few).out;
  const double gather_error = largest_difference(run_on_threads(config, few).outputs.out, exact);
  config.scheme = scheme_named("ring");
  const double ring_error = largest_difference(run_on_threads(config, few).outputs.out, exact);
  page.value("all-gather, largest error", rounding(gather_error, 2e-6));
  page.value("ring, largest error", rounding(ring_error, 2e-6));

  // ## On paper
  page.predict("10 tokens on 4 ranks, dealt out evenly: how many rows must a rank with 2 receive?",
               "rows", 10 - 2);
  page.predict("How many rows do two buffers hold there, if every block must fit in each?", "rows",
               2 * ring_job(1, 10, 4).max_rows());
  page.predict("16 ranks in place of 4: how much of the 8 MiB does each hold at once in a ring?",
               "MiB", 2 * all_kv / 16 / 0x1p20);

  // ## Checks
  //-
  const std::vector<double> scores = {2, 5, 1, 3}, values = {30, 40, 10, 20};
  page.equal("Four keys in the ring's order give 36.88",
             fixed(over_keys(scores, values.data()).out, 2), "36.88");
  page.equal("All of K and V are 8 MiB", bytes(all_kv), "8 MiB");
  page.equal("A rank of the ring sends what it must", bytes_sent(ring, 1), missing);
  page.equal("A rank of the all-gather sends the same", bytes_sent(gather, 1), missing);
  page.equal("The ring holds two blocks less", held(gather) - held(ring), all_kv / 2);
  page.equal("and 0.250 MiB besides Q, the output and two blocks", mib(ring), "6.250 MiB");
  page.at_most("The all-gather's output is exact up to rounding", gather_error, 2e-6);
  page.at_most("So is the ring's", ring_error, 2e-6);

  // ## Exercise
  //
  // Say how many rows a rank has, sends and holds, for lengths that are no multiple of N, too:
  // `lessons/05_many_ranks/exercise.py`. `./ringscope lesson 5 --check` plays the ring hop by hop.
}

}  // namespace ringscope::lessons::chapter_05
