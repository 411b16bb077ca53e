// `ringscope train` trains a small language model on a text, with ring attention inside.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/process/process_command.h"
#include "app/report/terminal.h"
#include "app/train/train_options.h"
#include "app/train/train_report.h"
#include "app/train/train_setup.h"
#include "app/view/view_command.h"
#include "core/base/files.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/recorder.h"

#ifdef RINGSCOPE_HAS_MPI
#include "core/process/agreement.h"
#include "core/train/training_run.h"
#endif

namespace ringscope {

namespace {

// Write one curve without gaps: the last steps whose losses are all known.
void write_picture(const TrainSetup& setup, const TrainJournal& journal,
                   const TrainOptions& options) {
  const std::vector<StepLoss>& losses = journal.losses();
  LossCurve curve;
  curve.unigram_entropy = unigram_entropy(setup.text);
  curve.title = model_text(setup.plan);
  for (auto row = losses.rbegin(); row != losses.rend(); ++row) {
    if (!curve.losses.empty() && row->step + 1 != curve.first_step) break;
    curve.losses.push_back(row->loss);
    curve.first_step = row->step;
  }
  std::reverse(curve.losses.begin(), curve.losses.end());
  write_loss_picture(curve, *options.picture, options.theme);
}

Generated sample_of(const TrainSetup& setup, const Checkpoint& model) {
  ProgressBar bar("writing");
  Index done = 0;
  return generate_on_threads(
      model, {setup.plan.deal.partition, 1}, *setup.sample, [&](std::uint8_t) {
        if (const auto progress = bar.callback())
          progress(static_cast<double>(++done) / static_cast<double>(setup.sample->bytes));
      });
}

// Write the files, generate text from the model and print the report, wherever the ranks were.
// `seconds` lasts from the first step to the last. Try all of them, then throw RunError for the
// first that failed.
void conclude_training(const TrainOptions& options, const TrainSetup& setup, TrainJournal& journal,
                       FinishedTraining& finished, double seconds) {
  std::optional<RunError> first_failure;
  const auto attempt = [&](const auto& f) {
    try {
      f();
    } catch (const std::exception& error) {
      if (!first_failure) first_failure = as_run_error(error);
    }
  };
  attempt([&] { journal.close(finished.end); });
  if (options.trace)
    attempt([&] {
      for_flag("--trace", [&] { write_chrome_trace(*options.trace, *finished.recording); });
    });
  if (options.picture)
    attempt([&] { for_flag("--picture", [&] { write_picture(setup, journal, options); }); });
  TrainReport report = make_train_report(options, setup, journal.losses(), finished, seconds);
  // Print the report before a long sample is generated, so that it can be read meanwhile.
  const bool silent = options.loss_csv == "/dev/stdout";
  if (!options.json && !silent) attempt([&] { print_out(train_text(report)); });
  if (setup.sample)
    attempt([&] {
      for_flag("--sample:", [&] { report.sample = sample_of(setup, finished.end).text; });
    });
  if (!silent) attempt([&] { print_out(options.json ? train_json(report) : sample_text(report)); });
  if (first_failure) throw *first_failure;
}

// Return what training calls after each step.
auto on_step(const TrainSetup& setup, TrainJournal& journal, ProgressBar& bar) {
  return [&](const StepReport& report, const TrainingRank& rank_0) {
    journal.note(report, rank_0);
    if (const auto progress = bar.callback()) progress(share_done(setup.plan, report.step));
  };
}

}  // namespace

int carry_out(const TrainOptions& options) {
  const int world_size = options.ranks.world_size.value_or(kDefaultTrainingRanks);
  TrainSetup setup;
  set_up(options, world_size, setup);
  require_training_memory(setup, world_size);
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);

  TrainJournal journal(options, setup);
  const std::int64_t begin_ns = monotonic_ns();
  std::optional<ProgressBar> bar("training");
  FinishedTraining finished = [&] {
    try {
      return run_training_on_threads(setup.plan, setup.text, on_step(setup, journal, *bar));
    } catch (const std::exception& error) {
      throw journal.close_failed(as_run_error(error));
    }
  }();
  const double seconds = seconds_since(begin_ns);
  bar.reset();
  conclude_training(options, setup, journal, finished, seconds);
  return 0;
}

// ---
// Training as one rank of a job: rank 0 reads text and checkpoint and broadcasts them.

#ifdef RINGSCOPE_HAS_MPI

namespace {

class TrainPart : public JobPart {
 public:
  TrainPart(MpiSession& session, const TrainOptions& options)
      : JobPart(session), options_(options) {}

  void prepare() override {
    require_world_size(session_, options_.ranks.world_size);
    if (!is_first()) return;
    set_up(options_, session_.world_size(), setup_);
    require_training_memory(setup_, 1);
    journal_.emplace(options_, setup_);
  }

  void run() override {
    const std::string text = line_.broadcast(is_first() ? setup_.text : "");
    const std::string checkpoint =
        line_.broadcast(is_first() && setup_.start ? to_bytes(*setup_.start) : "");
    if (!is_first()) {
      // This can't throw InputError, because rank 0 has accepted the same.
      set_up_from(options_, session_.world_size(), text, checkpoint, setup_);
      require_training_memory(setup_, 1);
    }
    agree(line_, {});  // now every rank knows that all have the memory for it
    const std::int64_t begin_ns = monotonic_ns();
    std::optional<ProgressBar> bar;
    if (is_first()) bar.emplace("training");
    finished_ =
        run_training_on_mpi(session_, setup_.plan, setup_.text,
                            is_first() ? AfterStep(on_step(setup_, *journal_, *bar)) : AfterStep());
    seconds_ = seconds_since(begin_ns);
  }

  int conclude() override {
    conclude_training(options_, setup_, *journal_, finished_, seconds_);
    return 0;
  }

  RunError leave_behind(const RunError& failure, const std::exception& thrown) override {
    const auto* const in_step = dynamic_cast<const TrainingFailure*>(&thrown);
    const RunError named =
        in_step == nullptr || in_step->train_step == 0
            ? failure
            : RunError(fmt::format("{}; in training step {}", failure.what(), in_step->train_step),
                       failure.rank(), failure.step());
    return journal_ ? journal_->close_failed(named) : named;
  }

 private:
  const TrainOptions& options_;
  TrainSetup setup_;
  FinishedTraining finished_;
  double seconds_ = 0;
  std::optional<TrainJournal> journal_;  // only on rank 0
};

}  // namespace

std::unique_ptr<JobPart> make_train_part(MpiSession& session, const TrainOptions& options) {
  return std::make_unique<TrainPart>(session, options);
}

#endif  // RINGSCOPE_HAS_MPI

}  // namespace ringscope
