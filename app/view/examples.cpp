#include "app/view/view_command.h"

#include "core/threads/generated_rows.h"
#include "core/threads/run.h"
#include "core/tools/sim/recording.h"
#include "lessons/book/lesson.h"
#include "lessons/book/page.h"
#include "viz/data/session/simulator.h"

namespace ringscope {
namespace {

// Return the recording of a ring whose ranks all send before any of them receives.
Recording deadlock() {
  Problem ring;
  ring.shape = {.num_heads = 1, .num_heads_kv = 1, .seqlen = 64, .head_dim = 8};
  ring.world_size = 4;
  ring.timeout_s = 0.2;
  ring.injection = Injection{Fault::send_first, 0, 0};
  try {
    return run_on_threads(ring, random_inputs(ring.shape)).recording;
  } catch (const RunFailure& failure) {
    return failure.recording();
  }
}

}  // namespace

std::vector<viz::Example> viewer_examples() {
  using viz::ring_of;
  const auto deals = [] {
    return std::vector{record(ring_of({{"partition", "contiguous"}})).recording,
                       record(ring_of({{"partition", "zigzag"}})).recording};
  };
  const auto slow_rank = [] {
    return std::vector{record(ring_of({{"world-size", "64"},
                                       {"seqlen", "256k"},
                                       {"partition", "zigzag"},
                                       {"kv-buffers", "2"},
                                       {"straggler", "37:0.7"}}))
                           .recording};
  };
  const auto lesson = [] {
    return std::vector{lessons::tell(lessons::lesson_of_number(6)).pictures.front().recording};
  };
  const auto two_nodes = [] {
    Scenario ring = ring_of({{"partition", "zigzag"}});
    ring.job.nodes = 2;
    ring.between = find_link("InfiniBand-NDR");
    return std::vector{record(ring).recording};
  };
  return {
      {"deals", "Contiguous against zigzag",
       "A causal mask gives the last of eight contiguous ranks the most work. Zigzag ranks "
       "share it evenly.",
       deals},
      {"slow-rank", "64 ranks, one of them slow",
       "One rank has 70 % of the others' speed. Which is it, and whom does it hold up?", slow_rank},
      {"deadlock", "A deadlock", "Every rank sends before it receives, so all of them wait.",
       [] { return std::vector{deadlock()}; }},
      {"ring-lesson", "The ring, told step by step",
       "A recording with a story beside it: lesson 6. Space goes on.", lesson},
      {"two-nodes", "Two nodes", "The link between two nodes is a ninth as fast as those inside.",
       two_nodes}};
}

}  // namespace ringscope
