#include "viz/model/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace ringscope::viz {
namespace {

// Return one more than the highest step of a pass.
int steps_of(const Trace& trace, Pass pass) {
  if (!trace.is_ring()) return 0;
  int steps = 0;
  for (const Row& row : trace.rows)
    for (const Slice& slice : row.slices)
      if (slice.pass == pass) steps = std::max(steps, slice.step + 1);
  return steps;
}

}  // namespace

std::string way_of(const RunInfo& run) {
  if (run.scheme != "ring") return " · " + run.scheme;
  return run.kv_buffers > 2 ? fmt::format(" · {} buffers", run.kv_buffers) : "";
}

std::string Trace::title() const {
  if (!run) return path.substr(path.find_last_of('/') + 1);
  const std::string training = run->training
                                   ? fmt::format(" · training step {}, layer {}",
                                                 run->training->train_step, run->training->layer)
                                   : "";
  return fmt::format("{} · {} · {} rank{}{}{}", run->partition, run->mask, run->world_size,
                     run->world_size == 1 ? "" : "s", way_of(*run), training);
}

int step_count(const Trace& trace) {
  return steps_of(trace, Pass::forward) + steps_of(trace, Pass::backward);
}

int forward_step_count(const Trace& trace) { return steps_of(trace, Pass::forward); }

}  // namespace ringscope::viz
