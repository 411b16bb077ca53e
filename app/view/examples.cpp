#include "app/view/view_command.h"

#include "core/threads/generated_rows.h"
#include "core/threads/run.h"
#include "core/tools/sim/recording.h"
#include "lessons/book/lesson.h"
#include "lessons/book/page.h"
#include "viz/data/session/simulator.h"

namespace ringscope {
namespace {

// Return the recording with a story of these paragraphs.
Recording told(Recording recording, std::vector<StoryStep> story) {
  recording.story = std::move(story);
  return recording;
}

// Run a ring whose ranks all send before any of them receives.
std::vector<Recording> deadlock() {
  Problem ring;
  ring.shape = {.num_heads = 1, .num_heads_kv = 1, .seqlen = 64, .head_dim = 8};
  ring.world_size = 4;
  ring.timeout_s = 0.2;
  ring.injection = Injection{Fault::send_first, 0, 0};
  try {
    return {run_on_threads(ring, random_inputs(ring.shape)).recording};
  } catch (const RunFailure& failure) {
    return {told(failure.recording(),
                 {{.text = "Every rank has attended its own block, which nobody had to send.",
                   .step = 0,
                   .lane = Lane::compute,
                   .figure = Figure::ring},
                  {.text = "Rank 0 sends, and waits until rank 1 takes the block. Rank 1 waits for "
                           "rank 2 in the same way, and so on round the ring: nobody can go on.",
                   .step = 1,
                   .rank = 0,
                   .lane = Lane::wait,
                   .figure = Figure::timeline},
                  {.text = "A hop must send and receive at once, or one rank must receive first. "
                           "Ringscope's `exchange` does the former.",
                   .figure = Figure::ring}})};
  }
}

Recording simulated_deal(const char* partition, std::vector<StoryStep> story) {
  return told(record(viz::ring_of({{"partition", partition}})).recording, std::move(story));
}

std::vector<Recording> deals() {
  return {
      simulated_deal("contiguous",
                     {{.text = "A query attends the keys before it, so the pairs are a triangle. "
                               "Rank 7 has its widest part.",
                       .step = 7,
                       .rank = 7,
                       .lane = Lane::compute,
                       .figure = Figure::mask},
                      {.text = "Rank 0 attends its own block and has nothing left. It waits until "
                               "the run ends.",
                       .step = 0,
                       .rank = 0,
                       .lane = Lane::compute,
                       .figure = Figure::timeline},
                      {.text = "The rows of the heat map get fuller from rank to rank. `V` shows "
                               "both deals again.",
                       .figure = Figure::balance}}),
      simulated_deal(
          "zigzag",
          {{.text = "Each rank has one chunk of the beginning and one of the end, so "
                    "all have equally many pairs.",
            .step = 4,
            .rank = 0,
            .lane = Lane::compute,
            .figure = Figure::mask},
           {.text = "Nobody waits. `V` shows both deals again.", .figure = Figure::balance}})};
}

std::vector<Recording> slow_rank() {
  const Scenario ring = viz::ring_of({{"world-size", "64"},
                                      {"seqlen", "256k"},
                                      {"partition", "zigzag"},
                                      {"kv-buffers", "2"},
                                      {"straggler", "37:0.7"}});
  return {
      told(record(ring).recording,
           {{.text = "All ranks have equally many pairs. Rank 37 takes longest for them, and it is "
                     "the only one that never waits.",
             .step = 1,
             .rank = 37,
             .lane = Lane::compute,
             .figure = Figure::timeline},
            {.text = "Rank 38 gets its blocks from rank 37, which are late.",
             .rank = 38,
             .lane = Lane::wait,
             .figure = Figure::timeline},
            {.text = "A rank has two buffers, so a block is sent on only when the next rank has "
                     "done with an older one. The delay therefore also goes *against* the ring: "
                     "rank 36 waits as long as rank 38.",
             .rank = 36,
             .lane = Lane::wait,
             .figure = Figure::timeline},
            {.text = "Balance says what the slow rank costs; *Try it* shows the run without it.",
             .figure = Figure::balance}})};
}

std::vector<Recording> lesson_of_the_ring() {
  return {lessons::tell(lessons::lesson_of_number(6)).pictures.front().recording};
}

std::vector<Recording> two_nodes() {
  Scenario ring = viz::ring_of({{"partition", "zigzag"}});
  ring.job.nodes = 2;
  ring.between = find_link("InfiniBand-NDR");
  return {
      told(record(ring).recording,
           {{.text = "Ranks 0 to 3 are one node and ranks 4 to 7 the other. The ring goes from one "
                     "to the other twice: from rank 3 to 4, and from rank 7 to 0.",
             .step = 1,
             .figure = Figure::ring},
            {.text = "The block that rank 4 gets from the other node takes nine times as long as "
                     "one within a node.",
             .step = 1,
             .rank = 4,
             .lane = Lane::recv,
             .figure = Figure::timeline},
            {.text = "It takes longer than attending a block, so rank 4 waits for it.",
             .step = 2,
             .rank = 4,
             .lane = Lane::wait,
             .figure = Figure::timeline},
            {.text = "Every block crosses, so every rank waits. Balance says what that costs.",
             .figure = Figure::balance}})};
}

}  // namespace

std::vector<viz::Example> viewer_examples() {
  return {
      {"deals", "Contiguous against zigzag",
       "A causal mask gives the last of eight contiguous ranks the most work. Zigzag ranks "
       "share it evenly.",
       deals},
      {"slow-rank", "64 ranks, one of them slow",
       "One rank has 70 % of the others' speed. Which is it, and whom does it hold up?", slow_rank},
      {"deadlock", "A deadlock", "Every rank sends before it receives, so all of them wait.",
       deadlock},
      {"ring-lesson", "The ring, told step by step",
       "A recording with a story beside it: lesson 6. Space goes on.", lesson_of_the_ring},
      {"two-nodes", "Two nodes", "The link between two nodes is a ninth as fast as those inside.",
       two_nodes}};
}

}  // namespace ringscope
