#include "core/training/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/clock.h"
#include "core/base/random.h"
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
  result.reserve(batch_ * (seqlen_ + 1));
  for (Index b = 0; b < batch_; ++b) {
    const std::uint64_t drawn =
        random_bits(seed_, kStream, static_cast<std::uint64_t>(step * batch_ + b));
    const auto first = text_.begin() + static_cast<Index>(drawn % places);
    result.insert(result.end(), first, first + seqlen_ + 1);
  }
  return result;
}

void require_known_bytes(const std::string& text, Index vocab) {
  const auto unknown = std::ranges::find_if(
      text, [vocab](char c) { return Index{static_cast<unsigned char>(c)} >= vocab; });
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
  require_between("tensor", plan.deal.tensor, 1, kMostParts);
  require_between("data", plan.deal.data, 1, kMostParts);
  share_of(plan.settings.shape, plan.deal.tensor);
  if (plan.settings.batch % plan.deal.data != 0)
    throw InputError(fmt::format("data: {} given for a batch of {}; accepted: a divisor of it",
                                 plan.deal.data, plan.settings.batch));
  if (plan.start != nullptr && plan.start->settings.shape != plan.settings.shape)
    throw InputError("checkpoint: of another shape of model; one of the same sizes accepted");
  if (plan.recorded_step != 0)
    require_between("trace-step", plan.recorded_step, plan.steps_before() + 1, plan.steps);
}

namespace {

GroupCommunicator group_of(Communicator& comm, const Deal& deal, const std::vector<Axis>& axes) {
  const RankGroups groups({{deal.tensor, deal.world_size, 1, deal.data}}, comm.world_size());
  return {comm, groups.members(comm.rank(), axes)};
}

// Return the error for diverged training. Ranks with the same weights find it at the same step.
RunError diverged(Index step, const std::string& what) {
  return RunError(fmt::format(
      "training has diverged: at step {} {}; a smaller learning rate may help", step, what));
}

}  // namespace

TrainingRank::TrainingRank(const TrainingPlan& plan, const TextBatches& batches, Communicator& comm,
                           WorkPulse* pulse)
    : plan_(plan),
      batches_(batches),
      rank_(comm.rank()),
      tensor_group_(group_of(comm, plan.deal, {Axis::tensor})),
      context_group_(group_of(comm, plan.deal, {Axis::context})),
      gradient_group_(group_of(comm, plan.deal, kGradientAxes)),
      ring_comm_(context_group_),
      weights_(plan.settings.shape, plan.deal.tensor),
      replica_(weights_, attention_problem(plan.settings, plan.deal), ring_comm_,
               plan.settings.seed, LossKind::mean, pulse, plan.deal.chunks,
               {&tensor_group_, &gradient_group_}),
      adam_(weights_.layout, plan.settings.adam, &replica_.ring().meter()) {
  if (plan.start == nullptr) return;
  for_own_parts(*plan.start, [](float whole, float& own) { own = whole; });
  adam_.set_steps(plan.start->step);
}

// Call f(value of the whole model, value of the rank) for each weight and what AdamW keeps of it.
template <class Whole, class F>
void TrainingRank::for_own_parts(Whole& whole, const F& f) {
  float *const values = replica_.store().values(), *const moments = adam_.moments().data();
  const auto size = std::ssize(whole.values);
  weights_.layout.for_parts_of_whole(place_in(&tensor_group_), [&](Index in_whole, Index own) {
    f(whole.values[in_whole], values[own]);
    f(whole.moments[in_whole], moments[own]);
    f(whole.moments[size + in_whole], moments[weights_.layout.size() + own]);
  });
}

StepReport TrainingRank::step() {
  const std::vector<std::uint8_t> windows = batches_.windows(adam_.steps());
  const std::size_t share = windows.size() / static_cast<std::size_t>(plan_.deal.data);
  const double loss = replica_.loss_and_gradients(
      windows.data() +
      share * static_cast<std::size_t>(gradient_group_.rank() / plan_.deal.world_size));
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
    const bool is_in_first_ring = rank_ == context_group_.rank() * plan_.deal.tensor;
    if (adam_.steps() + 1 == plan_.recorded_step && is_in_first_ring)
      recorder.emplace(replica_, plan_.settings.shape.layers);
    const StepReport report = step();
    if (recorder) recorded_ = recorder->take();
    recorder.reset();
    if (plan_.checkpoint_every > 0 && report.step % plan_.checkpoint_every == 0) gather_whole();
    costs_.seconds += seconds_since(begin_ns);
    ++costs_.steps;
    if (rank() == 0 && after_step) after_step(report, *this);
  }
  costs_.attention = replica_.ring().seconds();
  costs_.forward_bytes = ring_comm_.sent(Pass::forward).bytes;
  costs_.backward_bytes = ring_comm_.sent(Pass::backward).bytes;
  costs_.reduction_bytes = replica_.reduction_bytes();
  costs_.tensor_bytes = replica_.tensor_bytes();
  costs_.peak_bytes = replica_.ring().meter().peak_bytes();
  gather_whole();
}

// Only rank 0 writes a checkpoint, so only its tensor group needs to send anything.
void TrainingRank::gather_whole() {
  if (plan_.deal.tensor == 1 || gradient_group_.rank() != 0) return;
  whole_.emplace(Checkpoint{plan_.settings, adam_.steps(), {}, {}});
  const auto size = static_cast<std::size_t>(ModelWeights(plan_.settings.shape).layout.size());
  whole_->values.resize(size);
  whole_->moments.resize(2 * size);
  for_own_parts(*whole_, [](float& whole, float own) { whole = own; });
  replica_.model().tensor().unite(whole_->values);
  replica_.model().tensor().unite(whole_->moments);
}

Checkpoint TrainingRank::checkpoint() const {
  if (whole_) return *whole_;
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
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    // Ranks are those of the ring, as everywhere in a recording.
    for (TraceEvent& event : ranks[r].events)
      if (event.waiting_for > 0) event.waiting_for /= plan.deal.tensor;
    add_rank(recording, static_cast<int>(r), moved_by(std::move(ranks[r]), -earliest));
  }
  return recording;
}

FinishedTraining train_on_threads(const TrainingPlan& plan, const std::string& text,
                                  const AfterStep& after_step, const RankWatch& watch) {
  validate(plan);
  const TrainingSettings& settings = plan.settings;
  const TextBatches batches(text, settings.batch, settings.seqlen, settings.seed,
                            settings.shape.vocab);
  const auto ranks = run_rank_threads(
      static_cast<int>(plan.deal.ranks()), watch,
      [&](Communicator& comm, RankPulse& pulse) {
        return std::make_unique<TrainingRank>(plan, batches, comm, &pulse);
      },
      [&](TrainingRank& rank, RankPulse& pulse) { rank.run(outside(pulse, after_step)); });
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
