// Counts what a rank's program asks for (program.h): what a run will compute and send, known before it
// starts and without its memory.
#pragma once

#include <vector>

#include "core/ring/problem.h"
#include "core/ring/seams.h"

namespace ringscope {

struct LoopCounts {
  std::vector<Index> pairs_by_step;  // forward, per batch entry and head of the whole problem
  double forward_bytes = 0, backward_bytes = 0;  // sent
  int messages = 0;                              // sent, in both passes
  std::size_t hops = 0;                          // in both passes
  std::vector<StepInfo> attended;  // a block, or part of it, at a time, in the order of both passes
  // The most that a recording has of them.
  std::size_t events = 0, samples = 0;
};

// Return whether the job is a ring or an all-gather of whole blocks, whose counts have closed forms.
inline bool is_plain(const Problem& job) {
  return (job.scheme->course == Course::steps && !job.parts_blocks()) ||
         (job.scheme->course == Course::gathers && job.slices() == 1);
}

// Return whether the loops of all ranks are followed, because they are not turned copies of one and
// their traffic has no closed form here. Exchanges of heads have one where every rank gets as many at
// once.
inline bool is_followed(const Problem& job) {
  if (job.scheme->course == Course::heads)
    return job.slices() > 1 || job.shape.num_heads % job.world_size != 0 ||
           job.shape.num_heads_kv % job.world_size != 0;
  return !is_plain(job) && job.scheme->course != Course::turns;
}

// Count what `rank` does in both passes (backward if the job says so). Who asks for messages and events
// alone need not have the pairs counted.
LoopCounts count_loop(const Problem& job, int rank, bool with_pairs = true);

}  // namespace ringscope
