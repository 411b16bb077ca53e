#include "core/training/step_recorder.h"

#include <utility>

#include "core/base/clock.h"
#include "core/ring/loop_counts.h"

namespace ringscope {

namespace {

LoopCounts counts_of(const ContextRing& ring) {
  return count_loop(ring.problem(), ring.rank(), false);
}

Index sums_of(const Replica& replica) { return replica.reduction_bytes() + replica.tensor_bytes(); }

}  // namespace

StepRecorder::StepRecorder(Replica& replica, Index layers)
    : replica_(replica),
      ring_(replica.ring()),
      recorded_layer_(layers - 1),
      schedule_{ring_.rank(), ring_.ring_problem().partition.world_size},
      recorder_(counts_of(ring_).events, counts_of(ring_).samples, 0),
      comm_(ring_.own_communicator(), recorder_, static_cast<std::size_t>(3 * schedule_.steps())),
      backend_(ring_.own_backend(), recorder_, ring_.ring_problem().params, schedule_,
               NextAttended(counts_of(ring_).attended), {}),
      sent_(sums_of(replica)) {
  ring_.listen([this](ModelPart part, Pass pass, Index layer) { begins(part, pass, layer); });
}

StepRecorder::~StepRecorder() {
  ring_.listen({});
  ring_.run_over_own();
}

void StepRecorder::begins(ModelPart part, Pass pass, Index layer) {
  const std::int64_t now = monotonic_ns();
  end_part(now);
  spans_.push_back({part, pass, static_cast<std::int32_t>(layer), now, now});
  if (layer == recorded_layer_)
    ring_.run_over(comm_, backend_);
  else
    ring_.run_over_own();
}

void StepRecorder::end_part(std::int64_t now) {
  if (spans_.empty()) return;
  ModelSpan& part = spans_.back();
  part.end_ns = now;
  part.bytes = sums_of(replica_) - sent_;
  sent_ += part.bytes;
  if (part.part == ModelPart::attention)
    spans_.push_back(
        {ModelPart::ring, part.pass, part.layer, ring_.pass_begin_ns(), ring_.pass_end_ns()});
}

RankEvents StepRecorder::take() {
  end_part(monotonic_ns());
  comm_.flush();
  RankEvents recorded = recorded_by(recorder_);
  recorded.peak_bytes = ring_.meter().peak_bytes();
  recorded.model = std::move(spans_);
  return recorded;
}

RankEvents moved_by(RankEvents events, std::int64_t ns) {
  for (TraceEvent& event : events.events) event.begin_ns += ns, event.end_ns += ns;
  for (SoftmaxSample& sample : events.samples) sample.at_ns += ns;
  for (ModelSpan& span : events.model) span.begin_ns += ns, span.end_ns += ns;
  return events;
}

}  // namespace ringscope
