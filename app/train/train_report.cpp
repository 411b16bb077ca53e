#include "app/train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>

#include "app/command_line/flags.h"
#include "app/generate/generate.h"
#include "app/report/fields.h"
#include "app/report/terminal.h"
#include "core/base/text.h"

namespace ringscope {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLastLosses = 10;

// Return a step's share of a sum over steps.
template <class T>
T a_step(T sum, const RankCosts& costs) {
  return costs.steps == 0 ? T(0) : sum / static_cast<T>(costs.steps);
}

// Return attention's share of the time in steps.
double attention_share(const RankCosts& costs) {
  return costs.steps == 0 ? 0
                          : (costs.attention.forward + costs.attention.backward) / costs.seconds;
}

std::string head_lines(const TrainReport& report) {
  const TrainingPlan& plan = report.setup.plan;
  return fmt::format("{}\n{} on {}, {}; {} sequences of {} bytes a step, mask {}\n\n",
                     model_text(plan), name_of(report.options.ranks.backend),
                     count_text(plan.deal.world_size, "rank"), name_of(plan.deal.partition),
                     plan.settings.batch, plan.settings.seqlen, plan.settings.mask);
}

std::string loss_lines(const TrainReport& report) {
  const TrainingPlan& plan = report.setup.plan;
  std::string text = fmt::format(
      "unigram entropy  {:.3f} nats a byte, of {} bytes: what knowing how often each byte occurs "
      "gets to\n",
      report.unigram_entropy, report.setup.text.size());
  if (report.losses.empty())
    return text + fmt::format("loss             no step: {} are done\n", plan.steps);
  const std::size_t mean_of = std::min(kLastLosses, report.losses.size());
  return text + fmt::format("loss             {:.3f} in step {}, {:.3f} in step {}{}\n",
                            report.losses.front(), plan.steps_before() + 1, report.losses.back(),
                            plan.steps,
                            mean_of < 2 ? ""
                                        : fmt::format("; mean of the last {}: {:.3f}", mean_of,
                                                      report.last_losses()));
}

Fields rank_fields(const TrainReport& report, std::size_t rank) {
  const RankCosts& costs = report.finished.ranks[rank];
  return {{"rank", rank, "rank", 5},
          {"step_s", a_step(costs.seconds, costs), "step", 12, seconds_text},
          {"attention_forward_s", a_step(costs.attention.forward, costs), "attention forward", 20,
           seconds_text},
          {"attention_backward_s", a_step(costs.attention.backward, costs), "attention backward",
           20, seconds_text},
          {"attention_share", attention_share(costs), "share", 8, percent_text},
          {"bytes_sent", a_step(costs.sent_bytes(), costs), "sent a step", 14, bytes_text},
          {"attention_forward_bytes", a_step(costs.forward_bytes, costs)},
          {"attention_backward_bytes", a_step(costs.backward_bytes, costs)},
          {"reduction_bytes", a_step(costs.reduction_bytes, costs)},
          {"peak_bytes", costs.peak_bytes, "peak", 12, bytes_text}};
}

std::vector<Fields> all_rank_fields(const TrainReport& report) {
  std::vector<Fields> ranks;
  for (std::size_t r = 0; r < report.finished.ranks.size(); ++r)
    ranks.push_back(rank_fields(report, r));
  return ranks;
}

std::string cost_lines(const TrainReport& report) {
  std::string text = fmt::format("time             {} in all; {} a step, {:.0f} bytes/s\n\n",
                                 seconds_text(report.seconds), seconds_text(report.step_s),
                                 report.step_tokens() / report.step_s) +
                     table_text(all_rank_fields(report));
  Index forward = 0, backward = 0, reduction = 0;
  for (const RankCosts& costs : report.finished.ranks) {
    forward += a_step(costs.forward_bytes, costs);
    backward += a_step(costs.backward_bytes, costs);
    reduction += a_step(costs.reduction_bytes, costs);
  }
  text += fmt::format(
      "\non the wire a step, all ranks: {} for attention forward, {} backward, {} to add up "
      "gradients\n",
      bytes_text(forward), bytes_text(backward), bytes_text(reduction));
  if (report.options.ranks.backend == Backend::cpu)
    text += shared_cores_text(report.setup.plan.deal.world_size, "times include");
  return text;
}

Fields settings_fields(const TrainingSettings& s) {
  return {{"layers", s.shape.layers},
          {"width", s.shape.width},
          {"heads", s.shape.num_heads},
          {"heads_kv", s.shape.num_heads_kv},
          {"head_dim", s.shape.head_dim},
          {"hidden", s.shape.hidden},
          {"weights", ModelWeights(s.shape).layout.size()},
          {"batch", s.batch},
          {"seqlen", s.seqlen},
          {"mask", s.mask},
          {"lr", s.adam.rate},
          {"beta1", s.adam.beta1},
          {"beta2", s.adam.beta2},
          {"epsilon", s.adam.epsilon},
          {"weight_decay", s.adam.decay},
          {"max_grad_norm", s.adam.longest_gradient},
          {"warmup_steps", s.adam.warmup_steps},
          {"seed", seed_text(s.seed)}};
}

}  // namespace

double TrainReport::last_losses() const {
  const std::size_t count = std::min(kLastLosses, losses.size());
  if (count == 0) return kNone;
  return std::accumulate(losses.end() - static_cast<Index>(count), losses.end(), 0.0) /
         static_cast<double>(count);
}

double TrainReport::step_tokens() const {
  return static_cast<double>(setup.plan.settings.batch * setup.plan.settings.seqlen);
}

TrainReport make_train_report(const TrainOptions& options, const TrainSetup& setup,
                              const std::vector<StepLoss>& losses, const FinishedTraining& finished,
                              double seconds) {
  TrainReport report{options, setup, finished, {}, unigram_entropy(setup.text), seconds, 0, {}};
  for (const StepLoss& row : losses)
    if (row.step > setup.plan.steps_before()) report.losses.push_back(row.loss);
  if (!finished.ranks.empty()) report.step_s = a_step(finished.ranks[0].seconds, finished.ranks[0]);
  return report;
}

std::string model_text(const TrainingPlan& plan) {
  const ModelShape& s = plan.settings.shape;
  return fmt::format("{} of {}, {} ({} kv) of {}, MLP of {}: {:.2f} million weights",
                     count_text(s.layers, "layer"), s.width, count_text(s.num_heads, "head"),
                     s.num_heads_kv, s.head_dim, s.hidden,
                     static_cast<double>(ModelWeights(s).layout.size()) * 1e-6);
}

double share_done(const TrainingPlan& plan, Index step) {
  const Index all = plan.steps - plan.steps_before();
  return all == 0 ? 1 : static_cast<double>(step - plan.steps_before()) / static_cast<double>(all);
}

std::string train_text(const TrainReport& report) {
  std::string text = head_lines(report) + loss_lines(report);
  if (!report.losses.empty()) text += cost_lines(report);
  return text;
}

std::string sample_text(const TrainReport& report) {
  if (!report.sample) return "";
  return fmt::format("\n{}{}\n", shown(report.setup.sample->prompt), shown(*report.sample));
}

std::string train_json(const TrainReport& report) {
  const TrainingPlan& plan = report.setup.plan;
  const bool any = !report.losses.empty();
  Index sent = 0;
  for (const RankCosts& costs : report.finished.ranks) sent += a_step(costs.sent_bytes(), costs);
  Fields fields{
      {"backend", name_of(report.options.ranks.backend)},
      {"world_size", plan.deal.world_size},
      {"partition", name_of(plan.deal.partition)},
      {"steps", plan.steps},
      {"steps_before", plan.steps_before()},
      {"settings", settings_fields(plan.settings)},
      {"recompute", name_of(plan.deal.memory.recompute)},
      {"chunks", plan.deal.memory.chunks},
      {"shard_optimizer", plan.deal.memory.zero_stage > 0},
      {"bill_bytes", static_cast<Index>(total_bytes(training_memory(plan.settings, plan.deal)))},
      {"text_bytes", report.setup.text.size()},
      {"unigram_entropy", report.unigram_entropy},
      {"loss_first", any ? report.losses.front() : kNone},
      {"loss_last", any ? report.losses.back() : kNone},
      {"loss_last_mean", report.last_losses()},
      {"wall_s", report.seconds},
      {"step_s", any ? report.step_s : kNone},
      {"tokens_per_s", any ? report.step_tokens() / report.step_s : kNone},
      {"bytes_sent", sent},
      {"ranks", all_rank_fields(report)}};
  if (report.sample) {
    const std::string& prompt = report.setup.sample->prompt;
    fields = fields + Fields{{"prompt", shown(prompt)},
                             {"sample", shown(*report.sample)},
                             {"prompt_hex", hex(prompt)},
                             {"sample_hex", hex(*report.sample)}};
  }
  return json_line(fields);
}

namespace {

constexpr Index kLossesEvery = 100;  // steps

}  // namespace

TrainJournal::TrainJournal(const TrainOptions& options, const TrainSetup& setup)
    : options_(options), setup_(setup), losses_(setup.losses) {}

void TrainJournal::write_losses() const {
  if (!options_.loss_csv) return;
  for_flag("--loss-csv", [&] { write_loss_csv(*options_.loss_csv, losses_); });
}

// Write the losses first. If the process ends in between, the file has too many rows, which a
// resumed run replaces, but none are missing. Write the checkpoint even if the losses could not be
// written, because it is the purpose of training.
void TrainJournal::write(bool losses, Checkpoint* checkpoint) {
  std::optional<RunError> failed;
  const auto attempt = [&](const auto& write_one) {
    try {
      write_one();
    } catch (const std::exception& error) {  // also InputError, because the input was accepted
      failed = as_run_error(error);
    }
  };
  if (losses) attempt([&] { write_losses(); });
  if (checkpoint != nullptr)
    attempt([&] {
      checkpoint->planned_steps = setup_.plan.steps;
      checkpoint->text_mark = setup_.text_mark;
      for_flag("--checkpoint", [&] { save_checkpoint(*options_.checkpoint, *checkpoint); });
      saved_step_ = checkpoint->step;
    });
  if (failed) throw *failed;
}

void TrainJournal::note(const StepReport& report, const TrainingRank& rank_0) {
  losses_.push_back({report.step, report.loss});
  if (losses_.size() == setup_.losses.size() + 1)
    for (const auto& [name, value] : provenance()) losses_.back().origin += "," + csv_field(value);
  const auto is_due = [&](Index every) { return report.step % every == 0; };
  std::optional<Checkpoint> checkpoint;
  if (options_.checkpoint && is_due(every(options_))) checkpoint = rank_0.checkpoint();
  write(setup_.losses_are_kept && (checkpoint || is_due(kLossesEvery)),
        checkpoint ? &*checkpoint : nullptr);
}

void TrainJournal::close(Checkpoint& end) {
  write(true, options_.checkpoint && saved_step_ != end.step ? &end : nullptr);
}

RunError TrainJournal::close_failed(const RunError& failure) const {
  if (losses_.size() == setup_.losses.size()) return failure;  // nothing to lose
  try {
    write_losses();
    return failure;
  } catch (const std::exception& error) {
    return RunError(fmt::format("{}; and its losses are lost: {}", failure.what(), error.what()),
                    failure.rank(), failure.step());
  }
}

}  // namespace ringscope
