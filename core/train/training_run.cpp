#include "core/train/training_run.h"

#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/model/rank_threads.h"

namespace ringscope {

void validate(const TrainingPlan& plan) {
  validate(plan.settings);
  require_between("world-size", plan.deal.world_size, 1);
  if (plan.start != nullptr) require_same_shape(*plan.start, plan.settings);
  require_between("chunks", plan.deal.memory.chunks, 1);
  if (plan.recorded_step != 0)
    require_between("trace-step", plan.recorded_step, plan.steps_before() + 1, plan.steps);
}

MeasuredRank::MeasuredRank(const TrainingPlan& plan, const TextBatches& batches, Communicator& comm,
                           WorkPulse* pulse)
    : plan_(plan), comm_(comm), training_(plan.settings, plan.deal, batches, comm_, pulse) {
  if (plan.start != nullptr) training_.start_from(*plan.start);
}

StepReport MeasuredRank::step(Index step) {
  if (step != plan_.recorded_step) return training_.step();
  RecordedRankStep recorded = record_step(training_, default_recorded_layer(plan_.settings.shape));
  recorded_ = std::move(recorded.events);
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
  const auto ranks = run_rank_threads(
      plan.deal.world_size,
      [&](Communicator& comm) { return std::make_unique<MeasuredRank>(plan, batches, comm); },
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
