#include "app/train/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>

#include "app/command_line/ending.h"
#include "app/command_line/flags.h"
#include "app/generate/generate_output.h"
#include "app/report/json_writer.h"
#include "app/report/machine.h"
#include "app/run/memory.h"
#include "app/run/report.h"

namespace ringscope {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLastLosses = 10;

double a_step(double sum, const RankCosts& costs) {
  return costs.steps == 0 ? 0 : sum / static_cast<double>(costs.steps);
}
double a_step(Index sum, const RankCosts& costs) { return a_step(static_cast<double>(sum), costs); }

// Return attention's share of the time in steps.
double attention_share(const RankCosts& costs) {
  return costs.steps == 0 ? 0
                          : (costs.attention.forward + costs.attention.backward) / costs.seconds;
}

std::string head_lines(const TrainReport& report) {
  const TrainingPlan& plan = report.setup.plan;
  const int ranks = plan.deal.world_size;
  return fmt::format("{}\n{} on {} rank{}, {}; {} sequences of {} bytes a step, mask {}\n\n",
                     model_text(plan), name_of(report.options.backend), ranks,
                     ranks == 1 ? "" : "s", name_of(plan.deal.partition), plan.settings.batch,
                     plan.settings.seqlen, plan.settings.mask);
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

std::string cost_lines(const TrainReport& report) {
  const std::vector<RankCosts>& ranks = report.finished.ranks;
  std::string text = fmt::format("time             {} in all; {} a step, {:.0f} bytes/s\n\n",
                                 seconds_text(report.seconds), seconds_text(report.step_s),
                                 report.step_tokens() / report.step_s);
  text += fmt::format("{:>5}{:>12}{:>20}{:>20}{:>8}{:>14}{:>12}\n", "rank", "step",
                      "attention forward", "attention backward", "share", "sent a step", "peak");
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankCosts& costs = ranks[r];
    text += fmt::format("{:>5}{:>12}{:>20}{:>20}{:>6.1f} %{:>14}{:>12}\n", r,
                        seconds_text(a_step(costs.seconds, costs)),
                        seconds_text(a_step(costs.attention.forward, costs)),
                        seconds_text(a_step(costs.attention.backward, costs)),
                        100 * attention_share(costs), bytes_text(a_step(costs.sent_bytes(), costs)),
                        bytes_text(static_cast<double>(costs.peak_bytes)));
  }
  double forward = 0, backward = 0, reduction = 0;
  for (const RankCosts& costs : ranks) {
    forward += a_step(costs.forward_bytes, costs);
    backward += a_step(costs.backward_bytes, costs);
    reduction += a_step(costs.reduction_bytes, costs);
  }
  text += fmt::format(
      "\non the wire a step, all ranks: {} for attention forward, {} backward, {} to add up "
      "gradients\n",
      bytes_text(forward), bytes_text(backward), bytes_text(reduction));
  if (report.options.backend == Backend::cpu && report.setup.plan.deal.world_size > cores())
    text += fmt::format("{} ranks share {} core{}, so times include time without a core\n",
                        report.setup.plan.deal.world_size, cores(), cores() == 1 ? "" : "s");
  return text;
}

void put_settings(JsonWriter& json, const TrainingPlan& plan) {
  const TrainingSettings& s = plan.settings;
  json.key("settings");
  json.object([&] {
    for (const auto& [name, value] : {std::pair{"layers", s.shape.layers},
                                      {"width", s.shape.width},
                                      {"heads", s.shape.num_heads},
                                      {"heads_kv", s.shape.num_heads_kv},
                                      {"head_dim", s.shape.head_dim},
                                      {"hidden", s.shape.hidden},
                                      {"weights", ModelWeights(s.shape).layout.size()},
                                      {"batch", s.batch},
                                      {"seqlen", s.seqlen}})
      json.put(name, value);
    json.put("mask", std::string_view(s.mask));
    for (const auto& [name, value] : {std::pair{"lr", s.adam.rate},
                                      {"beta1", s.adam.beta1},
                                      {"beta2", s.adam.beta2},
                                      {"epsilon", s.adam.epsilon},
                                      {"weight_decay", s.adam.decay},
                                      {"max_grad_norm", s.adam.longest_gradient}})
      json.put(name, value);
    json.put("warmup_steps", s.adam.warmup_steps);
    put_seed(json, s.seed);
  });
}

void put_rank(JsonWriter& json, Index rank, const RankCosts& costs) {
  json.object([&] {
    json.put("rank", rank);
    json.put("step_s", a_step(costs.seconds, costs));
    json.put("attention_forward_s", a_step(costs.attention.forward, costs));
    json.put("attention_backward_s", a_step(costs.attention.backward, costs));
    json.put("attention_share", attention_share(costs));
    json.put("bytes_sent", costs.steps == 0 ? 0 : costs.sent_bytes() / costs.steps);
    json.put("attention_forward_bytes", costs.steps == 0 ? 0 : costs.forward_bytes / costs.steps);
    json.put("attention_backward_bytes", costs.steps == 0 ? 0 : costs.backward_bytes / costs.steps);
    json.put("reduction_bytes", costs.steps == 0 ? 0 : costs.reduction_bytes / costs.steps);
    json.put("peak_bytes", costs.peak_bytes);
  });
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
  return fmt::format("{} layer{} of {}, {} head{} ({} kv) of {}, MLP of {}: {:.2f} million weights",
                     s.layers, s.layers == 1 ? "" : "s", s.width, s.num_heads,
                     s.num_heads == 1 ? "" : "s", s.num_heads_kv, s.head_dim, s.hidden,
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
  JsonWriter json;
  json.object([&] {
    json.put("backend", name_of(report.options.backend));
    json.put("world_size", Index{plan.deal.world_size});
    json.put("partition", name_of(plan.deal.partition));
    json.put("steps", plan.steps);
    json.put("steps_before", plan.steps_before());
    put_settings(json, plan);
    json.put("text_bytes", static_cast<Index>(report.setup.text.size()));
    json.put("unigram_entropy", report.unigram_entropy);
    json.put("loss_first", any ? report.losses.front() : kNone);
    json.put("loss_last", any ? report.losses.back() : kNone);
    json.put("loss_last_mean", report.last_losses());
    json.put("wall_s", report.seconds);
    json.put("step_s", any ? report.step_s : kNone);
    json.put("tokens_per_s", any ? report.step_tokens() / report.step_s : kNone);
    Index sent = 0;
    for (const RankCosts& costs : report.finished.ranks)
      sent += costs.steps == 0 ? 0 : costs.sent_bytes() / costs.steps;
    json.put("bytes_sent", sent);
    json.array("ranks", [&] {
      for (std::size_t r = 0; r < report.finished.ranks.size(); ++r)
        put_rank(json, static_cast<Index>(r), report.finished.ranks[r]);
    });
    if (report.sample) {
      const std::string& prompt = report.setup.sample->prompt;
      json.put("prompt", std::string_view(shown(prompt)));
      json.put("sample", std::string_view(shown(*report.sample)));
      json.put("prompt_hex", std::string_view(hex(prompt)));
      json.put("sample_hex", std::string_view(hex(*report.sample)));
    }
  });
  return json.text() + "\n";
}

namespace {

constexpr Index kDefaultEvery = 100;  // steps

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
void TrainJournal::write(bool losses, const Checkpoint* checkpoint) {
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
      for_flag("--checkpoint", [&] { save_checkpoint(*options_.checkpoint, *checkpoint); });
      saved_step_ = checkpoint->step;
    });
  if (failed) throw *failed;
}

void TrainJournal::note(const StepReport& report, const TrainingRank& rank_0) {
  losses_.push_back({report.step, report.loss});
  const auto is_due = [&](Index every) { return report.step % every == 0; };
  std::optional<Checkpoint> checkpoint;
  if (options_.checkpoint && is_due(options_.checkpoint_every.value_or(kDefaultEvery)))
    checkpoint = rank_0.checkpoint();
  write(setup_.losses_are_kept && (checkpoint || is_due(kDefaultEvery)),
        checkpoint ? &*checkpoint : nullptr);
}

void TrainJournal::close(const Checkpoint& end) {
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
