#include "core/model/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/model/training_run.h"

namespace ringscope {

TextBatches::TextBatches(std::string text, Index batch, Index seqlen, std::uint64_t seed,
                         Index vocab)
    : text_(std::move(text)), batch_(batch), seqlen_(seqlen), seed_(seed) {
  if (static_cast<Index>(text_.size()) <= seqlen_)
    throw InputError(fmt::format("text: {} bytes given, at least seqlen + 1 = {} accepted",
                                 text_.size(), seqlen_ + 1));
  require_known_bytes(text_, vocab);
}

std::vector<std::uint8_t> TextBatches::windows(Index step) const {
  constexpr std::uint64_t kStream = 8;  // neither attention's inputs nor the weights use it
  const std::uint64_t places = text_.size() - static_cast<std::size_t>(seqlen_);
  std::vector<std::uint8_t> result;
  result.reserve(static_cast<std::size_t>(batch_ * (seqlen_ + 1)));
  for (Index b = 0; b < batch_; ++b) {
    const std::uint64_t drawn =
        random_bits(seed_, kStream, static_cast<std::uint64_t>(step * batch_ + b));
    const auto first = text_.begin() + static_cast<Index>(drawn % places);
    result.insert(result.end(), first, first + seqlen_ + 1);
  }
  return result;
}

void require_known_bytes(const std::string& text, Index vocab) {
  const auto unknown = std::find_if(text.begin(), text.end(), [vocab](char c) {
    return Index{static_cast<unsigned char>(c)} >= vocab;
  });
  if (unknown == text.end()) return;
  throw InputError(
      fmt::format("the text has a byte of {} at {}; bytes below {} accepted by this model",
                  static_cast<unsigned char>(*unknown), unknown - text.begin(), vocab));
}

double unigram_entropy(const std::string& text) {
  std::vector<double> counts(256);
  for (const char c : text) ++counts[static_cast<unsigned char>(c)];
  double entropy = 0;
  for (const double count : counts)
    if (count > 0) {
      const double share = count / static_cast<double>(text.size());
      entropy -= share * std::log(share);
    }
  return entropy;
}

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
               pulse, deal.memory),
      adam_(weights_.layout, settings.adam, &replica_.ring().meter(), replica_.slice(),
            replica_.is_sharded() ? ceil_div(replica_.store().gradients_and_loss(), deal.world_size)
                                  : replica_.store().size()) {}

void TrainingRank::start_from(const Checkpoint& checkpoint) {
  require_same_shape(checkpoint, settings_);
  std::copy(checkpoint.values.begin(), checkpoint.values.end(), replica_.store().values());
  for (int kind = 0; kind < 2; ++kind)
    std::copy_n(checkpoint.moments.data() + kind * replica_.store().size() + adam_.slice().first,
                adam_.slice().count, adam_.moments(kind));
  adam_.set_steps(checkpoint.step);
}

// The array of gradients, which is of no use between two steps, holds one kind of moments at a
// time.
void TrainingRank::gather_moments() {
  if (!replica_.is_sharded()) return;
  ParameterStore& store = replica_.store();
  gathered_.clear();
  for (int kind = 0; kind < 2; ++kind) {
    std::copy_n(adam_.moments(kind), adam_.slice().count, store.gradients() + adam_.slice().first);
    replica_.share(store.gradients());
    if (rank() == 0)
      gathered_.insert(gathered_.end(), store.gradients(), store.gradients() + store.size());
  }
  gathered_step_ = adam_.steps();
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
  const double length = replica_.gradient_length();
  adam_.update(replica_.store(), length);
  if (!std::isfinite(length))
    throw diverged(adam_.steps(), fmt::format("the gradients' length is {}", length));
  replica_.share(replica_.store().values());
  if (!replica_.store().is_finite())
    throw diverged(adam_.steps(), "weights are beyond what f32 can hold");
  return {adam_.steps(), loss, length};
}

Checkpoint TrainingRank::checkpoint(bool with_moments) const {
  const ParameterStore& store = replica_.store();
  const bool sharded = replica_.is_sharded();
  if (sharded && !with_moments)
    return {settings_, adam_.steps(), {store.values(), store.values() + store.size()}, {}};
  if (sharded && (rank() != 0 || gathered_step_ != adam_.steps()))
    throw std::logic_error("a checkpoint whose moments were not gathered");
  const float* const moments = sharded ? gathered_.data() : adam_.moments(0);
  return {settings_,
          adam_.steps(),
          {store.values(), store.values() + store.size()},
          {moments, moments + 2 * store.size()}};
}

Checkpoint train_on_threads(const TrainingSettings& settings, const Deal& deal,
                            const std::string& text, const Checkpoint* start, Index steps,
                            const AfterStep& after_step) {
  const TrainingPlan plan{settings, deal, start, steps, 0, max_of(steps, 1)};
  validate(plan);
  return run_training_on_threads(plan, text, after_step).end;
}

}  // namespace ringscope
