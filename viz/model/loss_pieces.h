// The time of a recording's ranks, cut into pieces by what it is lost to: losses.h says under which
// heading what falls. A piece of waiting for a rank that waits itself names that rank instead of a
// heading: whose reason counts there changes with time, and is followed by the sweep in losses.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/model/trace.h"

namespace ringscope::viz {

enum class Heading : std::uint8_t { compute, imbalance, late, link, overhead };
inline constexpr int kHeadingCount = 5;

// From `begin_ns` on, until the rank's next piece.
struct LossPiece {
  std::int64_t begin_ns = 0;
  int rank = 0;
  int follows = -1;  // a waiting rank, whose heading counts; -1: `heading` does
  Heading heading = Heading::overhead;
};

// All ranks' pieces by time; each rank's cover the whole recording. `trace` is one of ours.
std::vector<LossPiece> loss_pieces(const Trace& trace);

}  // namespace ringscope::viz
