// # The ring: owners, hops, double buffer, overlap
// > Every rank sends to the next and receives from the one before. The whole loop is a matter of where
// > each block is, how many buffers that takes, and what is started first.
//
// **You know** from lesson 5 that each rank keeps its queries and that KV blocks are passed from
// neighbour to neighbour. **You will see** where every block is at every moment, the loop that
// brings it there, and how the time of the transfers hides behind the computing.
//
// ## Who holds whose block
//
// A block belongs to the rank that it started from, its *owner*, wherever it is now. In a *hop*
// every rank passes a block on to the next: rank r sends to r + 1 and receives from r - 1, and the
// last rank sends to rank 0. What a rank does with one block is a step of the ring, and steps are
// counted from 0.
#include "core/ring/ring.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_06 {
void lesson_06(Page& page) {
  page.choose("Ranks 0 to 4. Which rank's block does rank 1 hold at step 3?",
              {"rank 0", "rank 1", "rank 2", "rank 3", "rank 4"}, "d");

  // Rank 1 got it from rank 0, which got it from rank 4, which got it from rank 3, where it began. Each
  // step goes one rank back:
  //
  //     owner(rank, step) = (rank - step) mod N
  //
  // In C++, % of a negative number is not positive, so the project's form has two cases:
  page.region("core/ring/ring.h", "owner");
  Table owners({"step", "rank 0", "rank 1", "rank 2", "rank 3", "rank 4"});
  int met[5] = {};  // by each rank, one bit an owner
  for (int step = 0; step < 5; ++step) {
    std::vector<Cell> cells = {step};
    for (int r = 0; r < 5; ++r) {
      cells.push_back(RingSchedule{r, 5}.owner(step));
      met[r] |= 1 << RingSchedule{r, 5}.owner(step);
    }
    owners.add(cells);
  }
  page.table(owners);

  // Down a column, a rank meets every owner once. Along a row, every block is held once. N steps
  // suffice, with N - 1 hops between them. The owner need not be sent along: it can be computed from
  // rank and step. Put lesson 3's four keys on two ranks. After step 0, from keys 3 and 4, a query of
  // rank 1 has m = 5, l = 1.050 and an output of 39.53. After step 1 it has l = 1.203 and an output of
  // 36.88.
  //
  // ## Two buffers
  //
  // While a block is attended, the next one comes in. It can't go into the same memory, so even and odd
  // steps use two buffers in turn: a **double buffer**. One danger remains. The block of step t + 1
  // goes into the buffer of step t - 1, so step t - 1 must be over, and its block must have left,
  // before the next one may arrive.
  page.predict("Sixteen ranks instead of four: how many block buffers does a rank need?", "buffers",
               2);
  page.picture("buffers.svg",
               "Rank 1's two buffers over time, and in red a block that comes early");

  // ## The loop
  //
  // The project has the whole ring in two short files, `core/reference/`: all ranks in one loop, in
  // f64. This is its forward pass. `attend` carries the state of each query on over a block's keys, and
  // `finish` divides each row by its l. `held` and `arriving` are the two buffers of every rank:
  page.region("core/reference/ring.h", "forward");

  // There all ranks take turns. Real ones run at the same time, and each starts its own hop and
  // ends it (`core/ring/ring.cpp`, for threads, processes and GPUs alike). The order matters. If the
  // hop is started before the computing, wires and processor work at once. If it is started
  // afterwards, one rests while the other works.
  //
  // ## Overlap
  //
  // A step that computes for 10 ms and a hop of 4 ms take 14 ms one after the other. Side by side
  // they take 10: the hop is hidden, or **overlapped**. With a hop of 15 ms a step takes 15, and 5
  // of them are spent waiting. Four steps and three hops take:
  const auto serial = [](double compute, double hop) { return 4 * compute + 3 * hop; };
  const auto overlapped = [](double compute, double hop) {
    return compute + 3 * std::fmax(compute, hop);
  };
  Table times({"a step", "a hop", "one after the other", "side by side"});
  for (const double hop : {4.0, 10.0, 15.0})
    times.row("10 ms", fmt::format("{} ms", hop), fmt::format("{} ms", serial(10, hop)),
              fmt::format("{} ms", overlapped(10, hop)));
  page.table(times);

  // A hop of up to 10 ms costs nothing. Lesson 12 asks when hops are that short. Here are four threads
  // as ranks:
  Problem config = ring_job(2, 4096, 4);  // 2 heads of 64, 4,096 tokens, 4 ranks
  config.recorded_tile = TilePlace{2, 1};
  RingRun run = run_on_threads(config, random_inputs(config.shape));
  const RunSummary summary = summarize(run.recording);
  page.value("rank 2 computed for",
             Cell(seconds_text(summary.ranks[2].compute_s), "18 ms, in a run on two cores"));
  page.value("and waited for", Cell(seconds_text(summary.ranks[2].wait_s), "4 ms"));
  page.trace(
      ideal_timeline(run.recording),
      {scene("Four ranks, three hops. A slice's colour says whose block it is about.",
             Figure::timeline),
       scene("Step 0 at rank 2: its own block. The hop has been started *before* the computing, "
             "so the block is sent on while it is attended, and rank 1's comes into the other "
             "buffer.",
             0, 2),
       scene("The ring at step 1: every block is one rank further than it was.", Figure::ring, 1),
       scene("After step 3 every rank has met every block.", 3, -1, Lane::compute)});

  // It also has the numbers of the first tile that rank 2 attends at step 1: `--panel tile` goes through them
  // from Q to out.
  //
  // The pictures show the times of lesson 5, for ranks with a core and a link each. In the run a hop was
  // a copy in memory, which hides easily, but four ranks shared two cores, so rank 2 waited all the
  // same. Your times will differ.
  //
  // ## Checks
  page.check("Every rank meets every owner",
             std::all_of(met, met + 5, [](int owners_met) { return owners_met == 31; }));
  page.equal("Each rank sent three blocks", summary.ranks[2].hops, 3);
  page.equal("of 1 MiB each", bytes(static_cast<double>(summary.ranks[2].bytes_sent)), "3 MiB");
  //-
  const PartOfKeys first = over_keys(2, 4), both = over_keys(0, 4);
  page.equal("Keys 3 and 4, then all", numbers({first.m, first.l, first.out, both.l, both.out}, 3),
             "5.000, 1.050, 39.526, 1.203, 36.881");

  // ## Exercise
  //
  // Write the loop, as one rank runs it, in `my_ring/06_the_ring.h`. `./ringscope lesson 6 --check`
  // runs it with your tiles on up to four ranks, compares it with lesson 1, and writes a
  // timeline that `./ringscope view` opens. Its clock counts a tick for each query-key pair and for each 16
  // bytes of a message. Exposed ticks are those that the run takes beyond the pairs of its busiest rank.
  // Your scores stand beside those of our solution ("par"). A rank knows its number and how many ranks
  // there are, and its hops are two calls. A message carries one of three things:
  page.region("lessons/my_ring/given.h", "messages");
  page.region("lessons/my_ring/given.h", "hops");
}

}  // namespace ringscope::lessons::chapter_06
