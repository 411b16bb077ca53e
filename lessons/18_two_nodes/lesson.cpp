// # Two nodes: the slowest hop decides
// > All ranks of a ring hop at once, so all wait for the one hop that leaves the node. An inner
// > ring gives that hop more time and more network cards. Deeper buffers hide only some delays.
//
// **You know** the ring's hops and buffers (lesson 6), and that a hop hides behind computing if it
// is shorter (12). **You will see** what becomes of a ring over two nodes, with links of different
// speeds, with ranks that are now and then late, and with one that always is. Everything here is
// simulated: the loop is the one that runs, and only its times are made up.
//
// ## Two of eight hops are slow
//
// A **node** is a machine with several GPUs: four here, joined by NVLink. Between nodes there is a
// network, and each node has a card for it. The ring goes from 0 to 3, over to 4, to 7 and back.
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_18 {
void lesson_18(Page& page) {
  Scenario ring = on_8("ring", 8 * 4096, /*heads=*/32, /*heads_kv=*/8, "NVLink4", /*nodes=*/2);
  ring.nics = 1;  // network cards per node

  // The mask is causal, the deal zigzag, and numbers are bf16. A block has 4,096 rows: 16 MiB. How long
  // does it travel, and how long does a step compute, if F is 0.65 of an H100's peak (lesson 12)?
  //-
  const auto ms = [](double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); };
  const double block = kv_hop_bytes(ring.job), inside = ring.rates.bytes_per_s;
  const double step = compute_seconds(ring.job, ring.rates, Pass::forward, 4096.0 * 4096 / 2);
  const double slow = block / ring.between.bytes_per_s;
  page.value("a step computes for", ms(step));
  page.value("a hop inside a node takes", ms(block / inside));
  page.value("a hop to the other node", ms(slow));

  // Six of the eight hops of a round are nearly free, and two take longer than the step. Nobody can
  // begin a step without its block. Here ranks also begin each step together, so all wait from the first
  // hop on. (If each began on its own, the delay would travel from rank to rank until all wait.)
  const Guess guess = page.predict("Seven hops, eight steps: how long does the ring take?", "ms");
  const auto run = [](const Scenario& s) { return run_scenario(s, work_of(s)); };
  const double flat = run(ring).wall_s;
  page.answer(guess, 1e3 * flat);

  // That is seven slow hops and the last step, beside which nothing is sent any more. The
  // mean of the links doesn't count, and neither do six good ones: **the slowest hop decides**.
  //
  // ## A ring of rings
  //
  // Four ranks need each block that comes from the other node. A *two-level ring* makes use of that.
  // Inside each node the four blocks go round in a small ring, four steps. Meanwhile each rank sends
  // its block to its partner in the other node, for the next four steps. A crossing then has four steps
  // of computing beside it, and each GPU of a node can use a network card of its own.
  Scenario two_level = ring;
  two_level.job.scheme = scheme_named("two-level");
  Table schemes({"scheme", "network cards per node", "whole run", "of it computing"});
  Scenario four_cards = ring, nested_four = two_level;
  four_cards.nics = nested_four.nics = 4;
  for (const Scenario* s : {&ring, &two_level, &four_cards, &nested_four})
    schemes.row(std::string(name_of(s->job.scheme)), s->nics, ms(run(*s).wall_s),
                percent(8 * step / run(*s).wall_s));
  const double nested_4 = run(nested_four).wall_s, flat_4 = run(four_cards).wall_s;
  page.choose("Which is the fastest? Put all three in order.",
              {"one ring", "two levels, one card each", "two levels, four cards each"},
              letters_by({flat, run(two_level).wall_s, nested_4}));
  page.table(schemes);

  page.picture("levels.svg", "Rank 3 of eight on two nodes: in one ring, and on two levels");

  // With one card, four blocks share it when they cross. That makes four slow hops in place of seven,
  // with four steps beside them, and then four more steps: 4 · 0.336 + 4 · 0.214 ms. With a card for
  // each GPU the crossing hides. A flat ring can't use those cards, because only one rank of a node
  // ever sends out.
  //
  // Two levels also send fewer blocks from node to node, though with many nodes hardly fewer. If N ranks lie
  // on M nodes, a node sends a block at each of the N - 1 hops of a flat ring, and N/M blocks at each of the
  // M - 1 crossings of two levels. Counted in simulations:
  //-
  const auto sent_by_node = [&](Scenario s, int nodes, int ranks_per_node) {
    s.job.nodes = nodes;
    s.job.world_size = nodes * ranks_per_node;
    const Recording r = record(s).recording;
    std::int64_t blocks = 0;
    for (int rank = 0; rank < ranks_per_node; ++rank)
      for (const TraceEvent& e : r.events[static_cast<std::size_t>(rank)])
        blocks += e.lane == Lane::send && e.dst >= ranks_per_node;
    return blocks;
  };
  Table crossing({"", "flat: N - 1", "two levels: (M - 1) · N/M"});
  for (const auto& [nodes, ranks] : {std::pair(2, 4), std::pair(8, 8)})
    crossing.row(fmt::format("{} nodes of {}", nodes, ranks), sent_by_node(ring, nodes, ranks),
                 sent_by_node(two_level, nodes, ranks));
  Scenario long_flat = ring, long_nested = two_level;
  long_flat.job.shape.seqlen = long_nested.job.shape.seqlen = 8 * 16384;
  const double same = run(long_flat).wall_s / run(long_nested).wall_s;
  page.table(crossing);

  // What two levels gain is mostly time for the crossing, and the use of more cards. Where a step
  // takes longer than the slow hop, they gain nothing:
  page.value("with 16,384 rows per rank a flat ring takes",
             fmt::format("{:.3f} times as long", same));

  // ## What breaks if a rank is late?
  //
  // A rank may be late by chance, a different one each time, because of an interrupt or a clock that
  // drops. That is **jitter** (here with an exponential distribution). Or it is always the same one, a
  // *straggler*: a card that runs hot. Back on one node, all ranks may begin each step together. Or each
  // begins when its block is there, and may be ahead by as many blocks as it has buffers for:
  const auto run_with = [&](int buffers, double jitter, double speed_of_5) {
    Scenario some = ring;
    some.job.nodes = 1;
    some.pace = buffers == 0 ? Pace::in_step : Pace::buffers;
    if (buffers > 0) some.job.kv_buffers = buffers;
    some.jitter = jitter;
    some.stragglers = {{5, speed_of_5}};
    double sum = 0;
    for (some.seed = 0; some.seed < 12; ++some.seed) sum += run(some).wall_s / 12;
    return sum;
  };
  Table late({"times as long as with no rank late", "each step late by chance, by 50 % on average",
              "rank 5 at 80 % of its speed"});
  const double calm = run_with(2, 0, 1);
  std::vector<double> chance, always;
  for (const int buffers : {0, 2, 3, 8}) {
    chance.push_back(run_with(buffers, 0.5, 1) / calm);
    always.push_back(run_with(buffers, 0, 0.8) / calm);
    late.row(buffers == 0 ? "in step" : fmt::format("{} buffers", buffers),
             fmt::format("{:.2f} times", chance.back()),
             fmt::format("{:.2f} times", always.back()));
  }
  page.predict("Rank 5 has 80 % of the others' speed. How long is the run, with 8 buffers?",
               "times", always.back());
  page.table(late);

  // In step, every step waits for its unluckiest rank. With two buffers nobody has to wait for a late
  // rank right away, and it may be early next time. That is most of what there is to gain. The rest is
  // one rank's bad luck over all its steps, and no buffer changes that. A straggler is late at every
  // step, and the run ends with it. Give it fewer rows, or replace it. (Deeper buffers help where work
  // is uneven: lesson 11.)
  //
  // ## In the viewer
  //
  // Why did everybody wait? Look for the long hops, and where they leave from.
  page.trace(
      record(ring).recording,
      {scene(
          "The sends of ranks 3 and 7 leave the node, and last from one step's beginning to the "
          "next one's. All others are short, and yet all ranks wait. Most waits name rank 3, and "
          "its own name rank 4: neither is slow, only the link between them.",
          Figure::timeline)});

  // ## On paper
  page.predict(
      "Three nodes of two; a step takes 10 ms, a hop inside 1, between nodes 25: a flat ring "
      "takes?",
      "ms", 5 * 25 + 10);
  page.predict("And two levels, if both ranks of a node cross in 25 ms?", "ms", 2 * 25 + 2 * 10);

  // ## With the program
  //
  // Run this with `--scheme ring` and with `--scheme two-level`, and double `--seqlen`:
  //
  //     ./ringscope simulate --world-size 8 --seqlen 32768 --heads 32 --heads-kv 8 --mask causal --partition zigzag --gpu H100 --link NVLink4 --nodes 2 --between InfiniBand-NDR
  //-
  Index tokens = 8 * 2048;
  do {
    tokens *= 2;
    long_flat.job.shape.seqlen = long_nested.job.shape.seqlen = tokens;
  } while (run(long_flat).wall_s > 1.01 * run(long_nested).wall_s);
  page.predict("From which length on do both take equally long?", "tokens", tokens);

  // ## Checks
  page.check("A step that is longer than the slow hop hides it", same > 0.99 && same < 1.01);
  page.equal("Flat, it is seven slow hops and a step", fixed(1e3 * flat, 3),
             fixed(1e3 * (7 * slow + step), 3));
  page.check("With four cards two levels hide the network, and a flat ring doesn't",
             nested_4 < 1.01 * 8 * step && flat_4 > 1.4 * 8 * step);
  page.check("With two buffers, a run with jitter takes almost a quarter less than in step",
             chance[1] < 0.78 * chance[0] && chance[1] > 0.75 * chance[0]);
  page.check("and six more buffers next to nothing", chance[3] > 0.95 * chance[1]);
}

}  // namespace ringscope::lessons::chapter_18
