// Traces with any number of slices in every row, of lengths that differ by orders of magnitude.
#pragma once

#include <cstdint>
#include <random>

#include "tests/viz_model/hand_made.h"

namespace ringscope::viz {

// A recording of ours, as far as rows and fields go: every rank takes its steps one after the other,
// with `slices` slices in each of its four lanes.
inline Trace crowded(int world_size, int slices, std::uint32_t seed) {
  std::mt19937 random(seed);
  HandMade made(world_size);
  for (int rank = 0; rank < world_size; ++rank)
    for (const RingLane lane : kAllLanes) {
      std::int64_t now = random() % 50;
      for (int i = 0; i < slices; ++i) {
        TraceEvent e;
        e.lane = lane;
        e.step = static_cast<int>(std::int64_t{i} * world_size / slices);
        e.kv_owner = static_cast<int>(random() % static_cast<unsigned>(world_size));
        now += random() % 3 == 0 ? 0 : random() % 100;
        e.begin_ns = now;
        e.end_ns = now += random() % 20 == 0 ? random() % 3000 : random() % 60;
        made.recording().events[static_cast<std::size_t>(rank)].push_back(e);
      }
    }
  return made.trace();
}

}  // namespace ringscope::viz
