#include "core/model/training_run.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/model/rank_threads.h"
#include "core/model/replica.h"
#include "core/run/recording.h"
#include "core/run/run.h"

namespace ringscope {

namespace {

// Records a step's spans as they begin. A part, which contains its ring, ends where the next
// begins; what the rank has sent by then for sums of gradients, and to share, is the part's.
class PartRecorder {
 public:
  explicit PartRecorder(const Replica& replica)
      : replica_(replica), sent_(replica.reduction_bytes()) {}

  void begins(ModelPart part, Pass pass, Index layer) {
    const std::int64_t now = monotonic_ns();
    end_part(now);
    part_ = spans_.size();
    spans_.push_back({part, pass, static_cast<std::int32_t>(layer), now, now});
  }
  void ring_begins(Pass pass) {
    ring_ = spans_.size();
    const std::int32_t layer = part_ < spans_.size() ? spans_[part_].layer : -1;
    const std::int64_t now = monotonic_ns();
    spans_.push_back({ModelPart::ring, pass, layer, now, now});
  }
  void ring_ends() { spans_[ring_].end_ns = monotonic_ns(); }

  std::vector<ModelSpan> take() {
    end_part(monotonic_ns());
    return std::move(spans_);
  }

 private:
  void end_part(std::int64_t now) {
    if (part_ >= spans_.size()) return;
    spans_[part_].end_ns = now;
    spans_[part_].bytes = replica_.reduction_bytes() - sent_;
    sent_ += spans_[part_].bytes;
  }

  const Replica& replica_;
  Index sent_;
  std::vector<ModelSpan> spans_;
  std::size_t part_ = SIZE_MAX, ring_ = SIZE_MAX;  // the last one of each
};

// Records when a pass of a ring is under way, around any backend, itself recorded or not.
class RingSpans : public ForwardingBackend {
 public:
  RingSpans(BlockBackend& inner, PartRecorder& parts) : ForwardingBackend(inner), parts_(parts) {}

  Completion begin(const QueryBlock& q, const SoftmaxState& state) override {
    parts_.ring_begins(Pass::forward);
    return ForwardingBackend::begin(q, state);
  }
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override {
    return ended(ForwardingBackend::finish(q, state));
  }
  Completion begin_backward(const QueryBlock& q, const BackwardState& state) override {
    parts_.ring_begins(Pass::backward);
    return ForwardingBackend::begin_backward(q, state);
  }
  Completion finish_backward(const StepInfo& step, const QueryBlock& q, const BackwardState& state,
                             const Completion& after) override {
    return ended(ForwardingBackend::finish_backward(step, q, state, after));
  }

 private:
  Completion ended(Completion finished) {
    wait_for(finished);
    parts_.ring_ends();
    return finished;
  }

  PartRecorder& parts_;
};

// The decorators of one rank for one step.
class StepDecorators {
 public:
  StepDecorators(Replica& replica, Index layer)
      : ring_(replica.ring()),
        layer_(layer),
        schedule_{ring_.rank(), ring_.ring_problem().partition.world_size},
        // A step has a block in either pass, three hops that are sent and received, three waits.
        recorder_(static_cast<std::size_t>(12 * schedule_.steps() + 4),
                  static_cast<std::size_t>(3 * schedule_.steps()), 0),
        comm_(ring_.own_communicator(), recorder_, static_cast<std::size_t>(3 * schedule_.steps())),
        backend_(ring_.own_backend(), recorder_, ring_.ring_problem().params, schedule_, {}),
        parts_(replica),
        spans_(ring_.own_backend(), parts_),
        recorded_spans_(backend_, parts_) {
    ring_.listen([this](ModelPart part, Pass pass, Index its_layer) {
      parts_.begins(part, pass, its_layer);
      if (part != ModelPart::attention) return;
      // A recording has one forward pass of a layer, and not the one that is computed again.
      const bool again = pass == Pass::forward && had_forward_;
      if (its_layer == layer_ && !again) {
        had_forward_ = true;
        ring_.run_over(comm_, recorded_spans_);
      } else {
        ring_.run_over(ring_.own_communicator(), spans_);
      }
    });
  }
  ~StepDecorators() {
    ring_.listen({});
    ring_.run_over_own();
  }
  StepDecorators(const StepDecorators&) = delete;
  StepDecorators& operator=(const StepDecorators&) = delete;

  RankEvents take() {
    std::vector<ModelSpan> model = parts_.take();
    comm_.flush();
    RankEvents recorded = recorded_by(recorder_, recorder_.events());
    recorded.peak_bytes = ring_.meter().peak_bytes();
    recorded.model = std::move(model);
    return recorded;
  }

 private:
  ContextRing& ring_;
  Index layer_;
  bool had_forward_ = false;
  RingSchedule schedule_;
  Recorder recorder_;
  RecordingCommunicator comm_;
  RecordingBackend backend_;
  PartRecorder parts_;
  RingSpans spans_, recorded_spans_;
};

// Return the earliest begin and the latest end of what the ranks recorded; of nothing, now.
std::pair<std::int64_t, std::int64_t> span_of(const std::vector<RankEvents>& ranks) {
  std::int64_t earliest = INT64_MAX, latest = 0;
  const auto widen = [&](const auto& slice) {
    earliest = std::min(earliest, slice.begin_ns);
    latest = std::max(latest, slice.end_ns);
  };
  for (const RankEvents& rank : ranks) {
    for (const TraceEvent& event : rank.events) widen(event);
    for (const ModelSpan& span : rank.model) widen(span);
  }
  if (earliest == INT64_MAX) earliest = latest = monotonic_ns();
  return {earliest, latest};
}

// Return the system clock's time at which the monotonic clock was at `monotonic`.
std::int64_t system_ns_at(std::int64_t monotonic) {
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  return now - (monotonic_ns() - monotonic);
}

}  // namespace

RecordedRankStep record_step(TrainingRank& rank, Index layer) {
  StepDecorators decorators(rank.replica(), layer);
  RecordedRankStep recorded;
  recorded.report = rank.step();
  recorded.events = decorators.take();
  return recorded;
}

RankEvents moved_by(RankEvents events, std::int64_t ns) {
  for (TraceEvent& event : events.events) event.begin_ns += ns, event.end_ns += ns;
  for (SoftmaxSample& sample : events.samples) sample.at_ns += ns;
  for (ModelSpan& span : events.model) span.begin_ns += ns, span.end_ns += ns;
  return events;
}

Recording recording_of_step(const TrainingSettings& settings, const Deal& deal, Index train_step,
                            Index layer, std::vector<RankEvents> ranks) {
  const std::int64_t earliest = span_of(ranks).first;
  Recording recording = empty_recording(attention_problem(settings, deal), "cpu");
  recording.info.base_time_ns = system_ns_at(earliest);
  if (settings.shape.layers > 0)
    recording.info.training = RecordedLayer{train_step, static_cast<std::int32_t>(layer),
                                            static_cast<std::int32_t>(settings.shape.layers)};
  recording.model.resize(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r)
    add_rank(recording, static_cast<int>(r), moved_by(std::move(ranks[r]), -earliest));
  return recording;
}

void validate(const TrainingPlan& plan) {
  validate(plan.settings);
  require_between("world-size", plan.deal.world_size, 1);
  if (plan.start != nullptr) require_same_shape(*plan.start, plan.settings);
  require_between("chunks", plan.deal.memory.chunks, 1);
  if (plan.recorded_step != 0)
    require_between("trace-step", plan.recorded_step, plan.steps_before() + 1, plan.steps);
}

void LiveSteps::add(int rank, Index step, const RankEvents& recorded) {
  constexpr std::int64_t kLeastPause = 250'000'000, kPausePerWriting = 19;
  std::lock_guard lock(mutex_);
  // Only the first rank to end a step may choose it, because the others' records are still to come.
  const bool is_first = std::exchange(newest_, std::max(newest_, step)) < step;
  if (is_first && step_ == 0 && monotonic_ns() >= next_ns_) {
    step_ = step;
    missing_ = plan_.deal.world_size;
    ranks_.assign(missing_, {});
  }
  if (step != step_) return;
  ranks_[rank] = recorded;
  if (--missing_ > 0) return;
  step_ = 0;
  const std::int64_t begin_ns = monotonic_ns();
  const auto [earliest_ns, last_ns] = span_of(ranks_);
  Recording recording =
      recording_of_step(plan_.settings, plan_.deal, step,
                        default_recorded_layer(plan_.settings.shape), std::move(ranks_));
  recording.info.live_ns = last_ns - earliest_ns + 1;  // after all slices, which have ended
  try {
    plan_.live(recording);
  } catch (const std::exception&) {  // the next one may find room on the disk
  }
  const std::int64_t end_ns = monotonic_ns();
  next_ns_ = end_ns + std::max(kLeastPause, kPausePerWriting * (end_ns - begin_ns));
}

MeasuredRank::MeasuredRank(const TrainingPlan& plan, const TextBatches& batches, Communicator& comm,
                           WorkPulse* pulse, LiveSteps* live)
    : plan_(plan),
      live_(live),
      comm_(comm),
      training_(plan.settings, plan.deal, batches, comm_, pulse) {
  if (plan.start != nullptr) training_.start_from(*plan.start);
}

StepReport MeasuredRank::step(Index step) {
  if (step != plan_.recorded_step && live_ == nullptr) return training_.step();
  RecordedRankStep recorded = record_step(training_, default_recorded_layer(plan_.settings.shape));
  if (live_ != nullptr) live_->add(training_.rank(), step, recorded.events);
  if (step == plan_.recorded_step) recorded_ = std::move(recorded.events);
  return recorded.report;
}

void MeasuredRank::gather_moments_after(Index step) {
  const Index every = plan_.checkpoint_every;
  if (every == 0 || (step != plan_.steps && step % every != 0)) return;
  const Index sent_before = training_.replica().reduction_bytes();
  training_.gather_moments();
  gathered_bytes_ += training_.replica().reduction_bytes() - sent_before;
}

Checkpoint MeasuredRank::take_end() {
  Checkpoint end = training_.checkpoint(plan_.checkpoint_every > 0);
  training_.forget_moments();
  return end;
}

void MeasuredRank::run(const AfterStep& after_step) {
  for (Index step = plan_.steps_before() + 1; step <= plan_.steps; ++step) {
    step_under_way_ = step;
    const std::int64_t begin_ns = monotonic_ns();
    const StepReport report = this->step(step);
    costs_.seconds += seconds_since(begin_ns);
    gather_moments_after(step);
    if (training_.rank() == 0 && after_step) after_step(report, training_);
    if (step < plan_.steps) training_.forget_moments();
  }
  costs_.steps = plan_.steps - plan_.steps_before();
  if (costs_.steps == 0) gather_moments_after(plan_.steps);
  costs_.attention = training_.replica().ring().seconds();
  costs_.forward_bytes = comm_.sent(Pass::forward).bytes;
  costs_.reduction_bytes = training_.replica().reduction_bytes() - gathered_bytes_;
  costs_.backward_bytes = comm_.sent(Pass::backward).bytes - training_.replica().reduction_bytes();
  costs_.peak_bytes = training_.replica().ring().meter().peak_bytes();
}

Recording recording_of(const TrainingPlan& plan, std::vector<RankEvents> ranks) {
  return recording_of_step(plan.settings, plan.deal, plan.recorded_step,
                           default_recorded_layer(plan.settings.shape), std::move(ranks));
}

FinishedTraining run_training_on_threads(const TrainingPlan& plan, const std::string& text,
                                         const AfterStep& after_step) {
  const TrainingSettings& settings = plan.settings;
  const TextBatches batches(text, settings.batch, settings.seqlen, settings.seed,
                            settings.shape.vocab);
  LiveSteps live(plan);
  const auto ranks = run_rank_threads(
      plan.deal.world_size,
      [&](Communicator& comm) {
        return std::make_unique<MeasuredRank>(plan, batches, comm, nullptr,
                                              plan.live ? &live : nullptr);
      },
      [&](MeasuredRank& rank) { rank.run(after_step); });
  FinishedTraining finished{ranks[0]->take_end(), {}, std::nullopt};
  std::vector<RankEvents> recorded;
  for (const auto& rank : ranks) {
    finished.ranks.push_back(rank->costs());
    if (rank->recorded()) recorded.push_back(std::move(*rank->recorded()));
  }
  if (plan.recorded_step != 0) finished.recording = recording_of(plan, std::move(recorded));
  return finished;
}

}  // namespace ringscope
