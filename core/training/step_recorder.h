// The recording of a training step. The ring of the last layer, whose passes are closest together,
// is recorded slice by slice like any run's. Everything else that the rank does, other layers'
// rings included, is a lane of spans beside it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/threads/recording.h"
#include "core/trace/rank_events.h"
#include "core/training/replica.h"

namespace ringscope {

// Records one rank while it lives. The model announces where the parts of a step begin
// (ContextRing::begins), and decorators around the two seams record the last layer's ring. No bit of
// the step changes.
class StepRecorder {
 public:
  StepRecorder(Replica& replica, Index layers);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  // Return what happened, at the end of the step. Times are on the monotonic clock, which ranks of one
  // process share.
  RankEvents take();

 private:
  void begins(ModelPart part, Pass pass, Index layer);
  // End the part under way. What was sent meanwhile for sums is the part's, and it contains its ring,
  // which is a span of its own.
  void end_part(std::int64_t now);

  Replica& replica_;
  ContextRing& ring_;
  Index recorded_layer_;
  RingSchedule schedule_;
  Recorder recorder_;
  RecordingCommunicator comm_;
  RecordingBackend backend_;
  std::vector<ModelSpan> spans_;
  Index sent_;  // before the part under way
};

// Return the events `ns` later.
RankEvents moved_by(RankEvents events, std::int64_t ns);

}  // namespace ringscope
