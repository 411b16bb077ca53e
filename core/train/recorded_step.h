// The recording of a training step. The ring of one layer is recorded slice by slice like any
// run's, so it has the steps, waits and messages that all readers of recordings know. Everything
// else that the rank does, other layers' rings included, is a lane of spans beside it. So the whole
// step is visible: who computes what when, and how much of it is attention.
//
// Decorators around the two seams of one layer's ring record it. The model itself announces where
// the parts of a step begin (ContextRing::begins).
#pragma once

#include <vector>

#include "core/trace/rank_events.h"
#include "core/train/training.h"

namespace ringscope {

// Return the layer whose ring is recorded by default. It is the last one, because its forward and
// backward passes are closest together.
constexpr Index default_recorded_layer(const ModelShape& shape) { return shape.layers - 1; }

// One rank's recorded step. Times are on the monotonic clock, which ranks of one process share.
struct RecordedRankStep {
  StepReport report;
  RankEvents events;  // core/trace/rank_events.h packs them for another process
};

// Train `rank` one step, with the same bits as TrainingRank::step(), and record it. All ranks
// record the same step and the same layer, which is in [0, layers). Throw as step() does.
RecordedRankStep record_step(TrainingRank& rank, Index layer);

// Return the recording of `train_step`, counted from 1, from what all ranks recorded, by rank.
// Times are moved so that the earliest is 0. `layer` is that of record_step(). Events of another
// process must have been moved to this one's monotonic clock first (moved_by).
Recording recording_of_step(const TrainingSettings& settings, const Deal& deal, Index train_step,
                            Index layer, std::vector<RankEvents> ranks);

// Return the events `ns` later.
RankEvents moved_by(RankEvents events, std::int64_t ns);

}  // namespace ringscope
