#include "core/train/training.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/layer/rank_threads.h"

namespace ringscope {
namespace {

void require_same_shape(const Checkpoint& checkpoint, const TrainingSettings& settings) {
  if (checkpoint.settings.shape == settings.shape) return;
  throw InputError("checkpoint: of another shape of model; one of the same sizes accepted");
}

}  // namespace

TrainingRank::TrainingRank(const TrainingSettings& settings, const Deal& deal,
                           const TextBatches& batches, Communicator& comm, WorkPulse* pulse)
    : settings_(settings),
      weights_(settings.shape),
      mask_(MaskSpec::parse(settings.mask)),
      batches_(batches),
      replica_(weights_,
               {attention_params(settings.shape, settings.batch),
                mask_.for_seqlen(settings.seqlen),
                {deal.partition, settings.seqlen, deal.world_size}},
               comm, settings.seed, LossKind::mean, pulse),
      adam_(weights_.layout, settings.adam, &replica_.ring().meter()) {}

void TrainingRank::start_from(const Checkpoint& checkpoint) {
  require_same_shape(checkpoint, settings_);
  std::copy(checkpoint.values.begin(), checkpoint.values.end(), replica_.store().values());
  std::copy(checkpoint.moments.begin(), checkpoint.moments.end(), adam_.moments().begin());
  adam_.set_steps(checkpoint.step);
}

StepReport TrainingRank::step() {
  const std::vector<std::uint8_t> windows = batches_.windows(adam_.steps());
  const double loss = replica_.loss_and_gradients(windows.data());
  const double length = adam_.update(replica_.store());
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
  validate(settings);
  if (deal.world_size < 1)
    throw InputError(fmt::format("world-size: {} given, at least 1 accepted", deal.world_size));
  const TextBatches batches(text, settings.batch, settings.seqlen, settings.seed);
  if (start != nullptr) require_same_shape(*start, settings);
  const auto ranks = run_rank_threads(
      deal.world_size,
      [&](Communicator& comm) {
        auto rank = std::make_unique<TrainingRank>(settings, deal, batches, comm);
        if (start != nullptr) rank->start_from(*start);
        return rank;
      },
      [&](TrainingRank& rank) {
        const Index done = start == nullptr ? 0 : start->step;
        for (Index step = done; step < steps; ++step) {
          const StepReport report = rank.step();
          if (rank.rank() == 0 && after_step) after_step(report, rank);
        }
      });
  return ranks[0]->checkpoint();
}

}  // namespace ringscope
