// # Real processes, and hangs on purpose
// > A ring that hangs says nothing by itself. This lesson makes six mistakes on purpose, and shows what
// > ends such a run, whom it blames, and what it records.
//
// **You know** from lesson 6 the loop of the ring, and that a hop is started before the computing.
// **You will see** what a hop becomes when ranks are processes, the mistakes that ring programs
// make, and how a run that stands still finds out who is to blame.
//
// ## Send and receive
//
// Until now ranks were threads, and a hop was a copy in memory. Processes can't see each other's
// memory. Between them stands a library, **MPI** for CPUs or **NCCL** for GPUs, with two calls: one
// rank says "send this to 3", and rank 3 says "receive from 2, into this memory". The block moves when
// both have been said, and a call may last until then.
#include "lessons/book/ending.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_13 {
//-
// Count the events recorded in a lane of a rank, or of all ranks if `rank` is -1.
static Index count_of(const Recording& recording, int rank, Lane lane) {
  Index count = 0;
  for (std::size_t r = 0; r < recording.events.size(); ++r)
    for (const TraceEvent& event : recording.events[r])
      count += event.lane == lane && (rank < 0 || static_cast<int>(r) == rank);
  return count;
}
//+

void lesson_13(Page& page) {
  // Now let each of four ranks send its block first, and receive one when that is over.
  const Guess guess = page.predict("How many of the four blocks arrive?", "blocks");

  // The ring on threads can commit such a mistake too: an `Injection` puts one into a rank's hop. A
  // run that stands still for a second is ended:
  Problem config;
  config.shape = {.num_heads = 1, .num_heads_kv = 1, .seqlen = 64, .head_dim = 8};
  config.world_size = 4;
  config.timeout_s = 1;
  const AttentionInputs in = random_inputs(config.shape);
  const auto with = [&](Fault fault, int rank, int step) {
    config.injection = Injection{fault, rank, step};
    return ending_of(config, in);
  };
  const Ending circle = with(Fault::send_first, 0, 0);
  const Index arrived = count_of(circle.recording, -1, Lane::recv);
  page.answer(guess, arrived);
  page.print(circle.message);

  // Each send waits until its receiver, the next rank, receives. But the next rank is itself sending:
  //
  //     rank 0    send to 1 ...    receive from 3
  //     rank 1    send to 2 ...    receive from 0, which rank 0's send waits for
  page.picture("circle.svg",
               "Four sends wait for each other; posted with their receives, all move");

  // The mistake is common, because MPI may put a small block aside in memory of its own, and the send
  // is over at once. Such a program passes all its tests, and hangs when the sequence grows.
  //
  // The cure is to hand over both as one *group*: the library starts all of it before it waits for
  // any. That is how this project sends over NCCL:
  page.region("cuda/nccl/nccl_world.cpp", "group");

  // MPI has two calls that only start, `MPI_Isend` and `MPI_Irecv`. Later one asks what is over:
  page.region("core/processes/mpi/mpi_communicator.cpp", "progress");

  // Somebody must ask often, because many MPIs move a block only while being asked. A rank that
  // computes a whole step without asking gets its hop after the step, not under it. Each rank therefore has a
  // second thread that does little else.
  //
  // ## Dead, or thinking?
  //
  // How did the run know that it was hanging? A long wait proves nothing, since the other rank may be
  // computing. Every rank therefore has a *pulse*: a count of the tiles and transfers that it has finished
  // (`pulse_->advance()` above), together with the place where the rank is:
  page.region("core/threads/watchdog.h", "RankStatus");

  // When no pulse has grown for the whole timeout, or one has not been heard from for that long, the run
  // is ended. To find whom to blame, the program follows the waits from rank to rank. They form a
  // circle, as above, or end at a rank that waits for nobody else. Say that rank 2 sends in hop 1, but
  // forgets to receive.
  const Guess steps = page.predict("How many of its four steps does rank 3 compute?", "steps");
  const Ending forgot = with(Fault::unposted_recv, 2, 1);
  page.answer(steps, count_of(forgot.recording, 3, Lane::compute));
  Table progress({"rank", "steps computed", "blocks received", "its last wait names"});
  for (int rank = 0; rank < 4; ++rank) {
    const int awaited = last_awaited(forgot.recording, rank);
    progress.row(rank, count_of(forgot.recording, rank, Lane::compute),
                 count_of(forgot.recording, rank, Lane::recv),
                 awaited == rank ? "itself: nobody else" : fmt::format("rank {}", awaited));
  }
  page.table(progress);
  page.print(forgot.message);

  // The pictures give all steps and hops the same time, because measured they vanish beside the second of
  // waiting.
  page.trace(
      in_even_steps(forgot.recording),
      {scene("Hop 1: rank 3 gets what rank 2 sends.", 1, 3, Lane::recv),
       scene("Rank 2 posted no receive, so it waits without a block for step 2.", 2, 2, Lane::wait),
       scene("Rank 2 has nothing to pass on in hop 2, so rank 3 waits for it.", 3, 3, Lane::wait)});

  // Rank 3 got what rank 2 sent in hops 0 and 1, so it computed three steps. In hop 1 rank 1 has posted its
  // send, and waits for rank 2 to receive. Rank 2 never posted its receive, so it is the only one that can
  // end this wait: its own wait names itself, and the message says that it waits for nobody. (Rank 0
  // stops after three steps, too. Its last hop includes a send to rank 1, which no longer takes it.) The
  // recording is kept:
  page.region("lessons/book/ending.h", "ending_of");

  // ## The other four
  //
  // Now rank 1 makes the mistakes. In hop 0 it sends one row too few, or dies, or overwrites its block
  // before the block has left. Or it sleeps 50 ms before every hop.
  const Ending fewer = with(Fault::wrong_count, 1, 0), died = with(Fault::killed_rank, 1, 0);
  const Ending slow = with(Fault::slow_rank, 1, 0), reused = with(Fault::early_reuse, 1, 0);
  const double off = largest_difference(slow.outputs.out, reused.outputs.out);
  page.value("a row too few", fewer.message);
  page.value("dies", died.message);
  page.value("slow", slow.message);
  page.value("rank 2 waited (3 x 50 ms)",
             Cell(seconds_text(summarize(slow.recording).ranks[2].wait_s), "at least 0.15 s"));
  page.value("overwritten", fmt::format("{}, but out is off by {:.2f}", reused.message, off));

  // The last is the worst: only a comparison with known numbers (`--verify`) ever shows it. The first
  // is noticed because both sides of a hop say how many bytes they mean before any moves. (NCCL does
  // not, and hangs.) After a death NCCL lets the others wait for ever, and MPI leaves the rest to
  // its launcher. Therefore each process here also holds a TCP connection to rank 0. It closes when the
  // process ends, so rank 0 knows at once, and ends all the others.
  //
  // ## Before the first hop
  //
  // Many hangs have another cause: a machine was started with a different option or version. Rank 0
  // therefore broadcasts its command line and version first, and a rank that has different ones ends
  // the whole run: `rank 1 has --mask causal, rank 0 has --mask full`.
  //
  // ## When a job hangs, look in this order
  //
  // 1. If a process has ended, it is the culprit. If some pulse still grows, a rank is slow (lesson 21).
  // 2. Follow the waits. The culprit is the rank that others wait for and that has not posted what they
  //    lack; the others are victims. If all have posted, in a circle, the order of the calls is wrong.
  // 3. Compare how far each has come: the last event of each lane. Then compare options and versions.
  //
  // ## Try it with real processes
  //
  //     ./ringscope mpirun 4 run --random --backend mpi --inject send-first --timeout 2
  //     ./ringscope mpirun 4 run --random --backend mpi --inject killed-rank
  //
  // Or end a process of a long run with `kill -9`: one line says which rank it was, at which step, and
  // no process stays behind. Your ring (lesson 9) runs on processes, too:
  //
  //     ./ringscope mpirun 4 run --backend my_ring --random --seqlen 512 --mask causal --backward --verify --trace mine.json
  //
  // ## Checks
  page.check("A slow rank ruins no number, an overwritten block does", off >= 0.01 && off < 100);

  // ## Exercise
  //
  // Without groups a ring needs an order. If one rank receives first, nobody waits for ever, but the sends
  // then follow one another round the ring. Write a hop of blocking calls that takes at most three of them
  // in turn: `my_ring/13_real_processes.h`. `./ringscope lesson 13 --check` runs your ring, forward and
  // backward, over it, and shows what hops cost when nothing hides them. A rank has two more calls:
  page.region("lessons/my_ring/given.h", "sends");
}

}  // namespace ringscope::lessons::chapter_13
