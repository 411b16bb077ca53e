// A training step's recording. The ring of one layer is recorded like any run's, slice by slice: it
// has the steps, waits and messages that everything which reads recordings knows. What the rank did
// before, between and after, other layers' rings among it, is a lane of spans beside it, so that
// the whole step is seen: who computes what when, and how much of it is attention.
//
// The ring is recorded by decorators around its two seams, put on for one layer; where the parts of
// a step begin the model says itself (ContextRing::begins).
#pragma once

#include <vector>

#include "core/trace/rank_events.h"
#include "core/train/training.h"

namespace ringscope {

// The layer whose ring is shown where nobody says another: of the last one forward and backward
// pass lie closest together.
constexpr Index default_recorded_layer(const ModelShape& shape) { return shape.layers - 1; }

// One rank's recorded step. Times are of the monotonic clock, and fit those of the other ranks of
// the same process.
struct RecordedRankStep {
  StepReport report;
  RankEvents events;  // can be packed for another process: core/trace/rank_events.h
};

// Trains `rank` one step, as TrainingRank::step() does and with the same bits, and records it. All
// ranks do so in the same step, with the same layer, which is in [0, layers). Throws as step().
RecordedRankStep record_step(TrainingRank& rank, Index layer);

// The recording of `train_step`, counted from 1, from what all ranks recorded, by rank; times are
// moved so that the earliest is 0. `layer` as for record_step. Events of another process must have
// been moved to this one's monotonic clock first (moved_by).
Recording recording_of_step(const TrainingSettings& settings, const Deal& deal, Index train_step,
                            Index layer, std::vector<RankEvents> ranks);

// The same, `ns` later.
RankEvents moved_by(RankEvents events, std::int64_t ns);

}  // namespace ringscope
