#include "app/train_command.h"

#include <algorithm>
#include <optional>

#include "app/ending.h"
#include "app/for_flag.h"
#include "app/picture_command.h"
#include "app/process_command.h"
#include "app/progress.h"
#include "app/terminal.h"
#include "app/train_journal.h"
#include "app/train_report.h"
#include "app/train_setup.h"
#include "core/base/atomic_file.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/recorder.h"

namespace ringscope {
namespace {

// The picture shows one curve without gaps: the last steps that the losses have all of.
void write_picture(const TrainSetup& setup, const TrainJournal& journal, const std::string& path) {
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
  write_loss_picture(curve, path);
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

}  // namespace

Stopwatch::Stopwatch() : begin_ns_(monotonic_ns()) {}
double Stopwatch::seconds() const { return static_cast<double>(monotonic_ns() - begin_ns_) * 1e-9; }

void conclude_training(const TrainOptions& options, const TrainSetup& setup, TrainJournal& journal,
                       const FinishedTraining& finished, double seconds) {
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
    attempt(
        [&] { for_flag("--picture", [&] { write_picture(setup, journal, *options.picture); }); });
  TrainReport report = make_train_report(options, setup, journal.losses(), finished, seconds);
  // A long sample takes its time, in which the report can be read.
  if (!options.json) attempt([&] { print_out(train_text(report)); });
  if (setup.sample)
    attempt([&] {
      for_flag("--sample:", [&] { report.sample = sample_of(setup, finished.end).text; });
    });
  attempt([&] { print_out(options.json ? train_json(report) : sample_text(report)); });
  if (first_failure) throw *first_failure;
}

int train_command(const TrainOptions& options) {
  const int world_size = options.world_size.value_or(kDefaultTrainingRanks);
  TrainSetup setup;
  set_up(options, world_size, setup);
  require_training_memory(setup, world_size);
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);

  TrainJournal journal(options, setup);
  const Stopwatch watch;
  std::optional<ProgressBar> bar("training");
  const FinishedTraining finished = [&] {
    try {
      return run_training_on_threads(setup.plan, setup.text,
                                     [&](const StepReport& report, const TrainingRank& rank_0) {
                                       journal.note(report, rank_0);
                                       if (const auto progress = bar->callback())
                                         progress(share_done(setup.plan, report.step));
                                     });
    } catch (const std::exception& error) {
      throw journal.close_failed(as_run_error(error));
    }
  }();
  const double seconds = watch.seconds();
  bar.reset();
  conclude_training(options, setup, journal, finished, seconds);
  return 0;
}

}  // namespace ringscope
