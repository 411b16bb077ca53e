#include "core/train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/train/training_run.h"

namespace ringscope {

void require_same_shape(const Checkpoint& checkpoint, const TrainingSettings& settings) {
  if (checkpoint.settings.shape == settings.shape) return;
  throw InputError("checkpoint: of another shape of model; one of the same sizes accepted");
}

TrainingRank::TrainingRank(const TrainingSettings& settings, const Deal& deal,
                           const TextBatches& batches, Communicator& comm, WorkPulse* pulse)
    : settings_(settings),
      weights_(settings.shape),
      batches_(batches),
      replica_(weights_, attention_problem(settings, deal), comm, settings.seed, LossKind::mean,
               pulse),
      adam_(weights_.layout, settings.adam, &replica_.ring().meter()) {}

void TrainingRank::start_from(const Checkpoint& checkpoint) {
  require_same_shape(checkpoint, settings_);
  std::copy(checkpoint.values.begin(), checkpoint.values.end(), replica_.store().values());
  std::copy(checkpoint.moments.begin(), checkpoint.moments.end(), adam_.moments().begin());
  adam_.set_steps(checkpoint.step);
}

namespace {

// Return the error for diverged training. All ranks find it at the same step, having the same bits.
RunError diverged(Index step, const std::string& what) {
  return RunError(fmt::format(
      "training has diverged: at step {} {}; a smaller learning rate may help", step, what));
}

}  // namespace

StepReport TrainingRank::step() {
  const std::vector<std::uint8_t> windows = batches_.windows(adam_.steps());
  const double loss = replica_.loss_and_gradients(windows.data());
  if (!std::isfinite(loss)) throw diverged(adam_.steps() + 1, fmt::format("the loss is {}", loss));
  replica_.ring().begins(ModelPart::update);
  const double length = adam_.update(replica_.store());
  if (!std::isfinite(length))
    throw diverged(adam_.steps(), fmt::format("the gradients' length is {}", length));
  if (!adam_.weights_are_finite())
    throw diverged(adam_.steps(), "weights are beyond what f32 can hold");
  return {adam_.steps(), loss, length};
}

Checkpoint TrainingRank::checkpoint() const {
  const ParameterStore& store = replica_.store();
  return {settings_,
          adam_.steps(),
          {store.values(), store.values() + store.size()},
          {adam_.moments().begin(), adam_.moments().end()}};
}

Checkpoint train_on_threads(const TrainingSettings& settings, const Deal& deal,
                            const std::string& text, const Checkpoint* start, Index steps,
                            const AfterStep& after_step) {
  const TrainingPlan plan{settings, deal, start, steps};
  validate(plan);
  return run_training_on_threads(plan, text, after_step).end;
}

}  // namespace ringscope
