// A recording with a story, made by hand, in which every moment is known.
#pragma once

#include <vector>

#include "tests/viz_data/hand_made.h"

namespace ringscope::viz {

// Two ranks, forward and backward, a step every 100 us. Rank 0 computes 40 us at a time and waits
// for rank 1, which computes 80 us; hops take 20 us from each step's beginning.
inline HandMade two_ranks() {
  HandMade made(2);
  for (int i = 0; i < 4; ++i) {
    const Pass pass = i < 2 ? Pass::forward : Pass::backward;
    const int step = i % 2;
    const std::int64_t begin = i * 100'000;
    made.compute(0, step, begin, begin + 40'000, 1, pass);
    made.compute(1, step, begin, begin + 80'000, 2, pass);
    if (step == 1) continue;
    made.hop(0, step, begin, begin + 20'000, 100, Payload::kv, pass);
    made.hop(1, step, begin, begin + 20'000, 100, Payload::kv, pass);
    made.wait(0, 1, begin + 40'000, begin + 100'000, Payload::kv, pass);
  }
  return made;
}

inline std::vector<StoryStep> sample_story() {
  return {{.text = "All of it."},
          {.text = "Rank 1 has `more` to do.", .step = 0, .rank = 1, .lane = Lane::compute},
          {.text = "So rank 0 **waits**.\n\n- For rank 1;\n- *every* step.",
           .step = 1,
           .rank = 0,
           .lane = Lane::wait,
           .figure = Figure::balance},
          {.text = "Both compute again.", .pass = Pass::backward, .step = 0},
          {.text = "That was rank 0.", .rank = 0, .figure = Figure::softmax}};
}

inline Trace told_trace() {
  HandMade made = two_ranks();
  made.recording().story = sample_story();
  return made.trace();
}

inline Session told_session() { return session_of(told_trace()); }

}  // namespace ringscope::viz
