#include "app/train/train.h"

#include <fmt/format.h>

#include <exception>
#include <limits>
#include <numeric>

#include "app/command_line/flags.h"
#include "app/report/fields.h"
#include "app/report/terminal.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace ringscope {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Return a step's share of a sum over steps.
template <class T>
T a_step(T sum, const RankCosts& costs) {
  return costs.steps == 0 ? T(0) : sum / static_cast<T>(costs.steps);
}

Fields rank_fields(const RankCosts& costs, std::size_t rank) {
  const double attention = costs.attention.forward + costs.attention.backward;
  return {{"rank", rank, "rank", 5},
          {"step_s", a_step(costs.seconds, costs), "step", 12, seconds_text},
          {"attention_forward_s", a_step(costs.attention.forward, costs), "attention forward", 20,
           seconds_text},
          {"attention_backward_s", a_step(costs.attention.backward, costs), "attention backward",
           20, seconds_text},
          {"attention_share", costs.steps == 0 ? 0 : attention / costs.seconds, "share", 8,
           percent_text},
          {"bytes_sent", a_step(costs.sent_bytes(), costs), "sent a step", 14, bytes_text},
          {"attention_forward_bytes", a_step(costs.forward_bytes, costs)},
          {"attention_backward_bytes", a_step(costs.backward_bytes, costs)},
          {"reduction_bytes", a_step(costs.reduction_bytes, costs)},
          {"peak_bytes", costs.peak_bytes, "peak", 12, bytes_text}};
}

std::vector<Fields> all_rank_fields(const TrainReport& report) {
  std::vector<Fields> ranks;
  for (const RankCosts& costs : report.finished.ranks)
    ranks.push_back(rank_fields(costs, ranks.size()));
  return ranks;
}

double step_seconds(const TrainReport& report) {
  const RankCosts& rank_0 = report.finished.ranks[0];
  return report.losses.empty() ? kNone : a_step(rank_0.seconds, rank_0);
}

double tokens_per_s(const TrainReport& report) {
  const TrainingSettings& settings = report.setup.plan.settings;
  return static_cast<double>(settings.batch * settings.seqlen) / step_seconds(report);
}

// Return the mean of the last losses, enough to smooth out which pieces of text were drawn.
double last_losses(const std::vector<double>& losses) {
  const Index count = min_of(10, std::ssize(losses));
  if (count == 0) return kNone;
  return std::accumulate(losses.end() - count, losses.end(), 0.0) / static_cast<double>(count);
}

Fields settings_fields(const TrainingSettings& s) {
  return fields_of(s) + Fields{{"weights", ModelWeights(s.shape).layout.size()}};
}

}  // namespace

std::string train_text(const TrainReport& report) {
  const TrainingPlan& plan = report.setup.plan;
  const ModelShape& s = plan.settings.shape;
  std::string text = fmt::format(
      "{} of {}, {} ({} kv) of {}, MLP of {}: {:.2f} million weights\n"
      "{} on {}, {}; {} sequences of {} bytes a step, mask {}\n\n"
      "unigram entropy  {:.3f} nats a byte, of {} bytes\n",
      count_text(s.layers, "layer"), s.width, count_text(s.num_heads, "head"), s.num_heads_kv,
      s.head_dim, s.hidden, static_cast<double>(ModelWeights(s).layout.size()) * 1e-6,
      name_of(report.options.ranks.backend), count_text(plan.deal.world_size, "rank"),
      name_of(plan.deal.partition), plan.settings.batch, plan.settings.seqlen, plan.settings.mask,
      unigram_entropy(report.setup.text), report.setup.text.size());
  if (report.losses.empty())
    return text + fmt::format("loss             no step: {} are done\n", plan.steps);
  text += fmt::format(
      "loss             {:.3f} in step {}, {:.3f} in step {}; mean of the last ones: {:.3f}\n"
      "time             {} in all; {} a step, {:.0f} bytes/s\n\n",
      report.losses.front(), plan.steps_before() + 1, report.losses.back(), plan.steps,
      last_losses(report.losses), seconds_text(report.seconds), seconds_text(step_seconds(report)),
      tokens_per_s(report));
  text += table_text(all_rank_fields(report));
  if (report.options.ranks.backend == Backend::cpu)
    text += shared_cores_text(plan.deal.world_size, "times include");
  return text;
}

std::string train_json(const TrainReport& report) {
  const TrainingPlan& plan = report.setup.plan;
  const std::vector<double>& losses = report.losses;
  Index sent = 0;
  for (const RankCosts& costs : report.finished.ranks) sent += a_step(costs.sent_bytes(), costs);
  return json_line(
      {{"backend", name_of(report.options.ranks.backend)},
       {"world_size", plan.deal.world_size},
       {"partition", name_of(plan.deal.partition)},
       {"steps", plan.steps},
       {"steps_before", plan.steps_before()},
       {"settings", settings_fields(plan.settings)},
       {"chunks", plan.deal.chunks},
       {"bill_bytes", static_cast<Index>(total_bytes(training_memory(plan.settings, plan.deal)))},
       {"text_bytes", report.setup.text.size()},
       {"unigram_entropy", unigram_entropy(report.setup.text)},
       {"loss_first", losses.empty() ? kNone : losses.front()},
       {"loss_last", losses.empty() ? kNone : losses.back()},
       {"loss_last_mean", last_losses(losses)},
       {"wall_s", report.seconds},
       {"step_s", step_seconds(report)},
       {"tokens_per_s", tokens_per_s(report)},
       {"bytes_sent", sent},
       {"ranks", all_rank_fields(report)}});
}

void TrainJournal::note(const StepReport& report, const TrainingRank& rank_0) {
  losses_.push_back(report.loss);
  if (!options_.checkpoint || report.step % options_.checkpoint_every.value_or(100) != 0) return;
  write_end(rank_0.checkpoint());
  saved_step_ = report.step;
}

void TrainJournal::write_losses() const {
  if (!options_.loss_csv) return;
  std::string text = "step,loss,version,commit,command,seed,machine,time\n", origin;
  for (const auto& [name, value] : provenance()) origin += "," + csv_field(value);
  Index step = setup_.plan.steps_before();
  for (const double loss : losses_) {
    text += fmt::format("{},{:.9g}{}\n", ++step, loss, origin);
    origin = ",,,,,,";
  }
  for_flag("--loss-csv", [&] { write_file(*options_.loss_csv, text); });
}

void TrainJournal::write_end(const Checkpoint& end) const {
  if (options_.checkpoint && end.step != saved_step_)
    for_flag("--checkpoint", [&] { save_checkpoint(*options_.checkpoint, end); });
}

RunError TrainJournal::close_failed(const RunError& failure) const {
  if (losses_.empty()) return failure;  // nothing to lose
  try {
    write_losses();
    return failure;
  } catch (const std::exception& error) {
    return RunError(fmt::format("{}; and its losses are lost: {}", failure.what(), error.what()),
                    failure.rank(), failure.step());
  }
}

}  // namespace ringscope
