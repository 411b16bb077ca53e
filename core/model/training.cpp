#include "core/model/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/model/rank_threads.h"
#include "core/model/step_recorder.h"

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

void validate(const TrainingPlan& plan) {
  validate(plan.settings);
  require_between("world-size", plan.deal.world_size, 1);
  require_between("chunks", plan.deal.chunks, 1);
  if (plan.start != nullptr && plan.start->settings.shape != plan.settings.shape)
    throw InputError("checkpoint: of another shape of model; one of the same sizes accepted");
  if (plan.recorded_step != 0)
    require_between("trace-step", plan.recorded_step, plan.steps_before() + 1, plan.steps);
}

TrainingRank::TrainingRank(const TrainingPlan& plan, const TextBatches& batches, Communicator& comm,
                           WorkPulse* pulse)
    : plan_(plan),
      batches_(batches),
      comm_(comm),
      weights_(plan.settings.shape),
      replica_(weights_, attention_problem(plan.settings, plan.deal), comm_, plan.settings.seed,
               LossKind::mean, pulse, plan.deal.chunks),
      adam_(weights_.layout, plan.settings.adam, &replica_.ring().meter()) {
  if (plan.start == nullptr) return;
  std::copy(plan.start->values.begin(), plan.start->values.end(), replica_.store().values());
  std::copy(plan.start->moments.begin(), plan.start->moments.end(), adam_.moments().begin());
  adam_.set_steps(plan.start->step);
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
  if (!replica_.store().is_finite())
    throw diverged(adam_.steps(), "weights are beyond what f32 can hold");
  return {adam_.steps(), loss, length};
}

void TrainingRank::run(const AfterStep& after_step) {
  while (adam_.steps() < plan_.steps) {
    const std::int64_t begin_ns = monotonic_ns();
    std::optional<StepRecorder> recorder;
    if (adam_.steps() + 1 == plan_.recorded_step)
      recorder.emplace(replica_, plan_.settings.shape.layers);
    const StepReport report = step();
    if (recorder) recorded_ = recorder->take();
    recorder.reset();
    costs_.seconds += seconds_since(begin_ns);
    ++costs_.steps;
    if (rank() == 0 && after_step) after_step(report, *this);
  }
  costs_.attention = replica_.ring().seconds();
  costs_.forward_bytes = comm_.sent(Pass::forward).bytes;
  costs_.reduction_bytes = replica_.reduction_bytes();
  costs_.backward_bytes = comm_.sent(Pass::backward).bytes - costs_.reduction_bytes;
  costs_.peak_bytes = replica_.ring().meter().peak_bytes();
}

Checkpoint TrainingRank::checkpoint() const {
  const ParameterStore& store = replica_.store();
  return {plan_.settings,
          adam_.steps(),
          {store.values(), store.values() + store.size()},
          {adam_.moments().begin(), adam_.moments().end()}};
}

Recording recording_of(const TrainingPlan& plan, std::vector<RankEvents> ranks) {
  const std::int64_t now = monotonic_ns();
  std::int64_t earliest = now;
  for (const RankEvents& rank : ranks) {
    for (const TraceEvent& event : rank.events) earliest = std::min(earliest, event.begin_ns);
    for (const ModelSpan& span : rank.model) earliest = std::min(earliest, span.begin_ns);
  }
  Recording recording = empty_recording(attention_problem(plan.settings, plan.deal), "cpu");
  recording.info.base_time_ns -= now - earliest;
  const auto layers = static_cast<std::int32_t>(plan.settings.shape.layers);
  if (layers > 0) recording.info.training = RecordedLayer{plan.recorded_step, layers - 1, layers};
  recording.model.resize(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r)
    add_rank(recording, static_cast<int>(r), moved_by(std::move(ranks[r]), -earliest));
  return recording;
}

FinishedTraining train_on_threads(const TrainingPlan& plan, const std::string& text,
                                  const AfterStep& after_step) {
  validate(plan);
  const TrainingSettings& settings = plan.settings;
  const TextBatches batches(text, settings.batch, settings.seqlen, settings.seed,
                            settings.shape.vocab);
  const auto ranks = run_rank_threads(
      plan.deal.world_size,
      [&](Communicator& comm) { return std::make_unique<TrainingRank>(plan, batches, comm); },
      [&](TrainingRank& rank) { rank.run(after_step); });
  FinishedTraining finished{ranks[0]->checkpoint(), {}, std::nullopt};
  std::vector<RankEvents> recorded;
  for (const auto& rank : ranks) {
    finished.ranks.push_back(rank->costs());
    if (rank->recorded()) recorded.push_back(std::move(*rank->recorded()));
  }
  if (plan.recorded_step != 0) finished.recording = recording_of(plan, std::move(recorded));
  return finished;
}

}  // namespace ringscope
