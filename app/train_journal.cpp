#include "app/train_journal.h"

#include <fmt/format.h>

#include <exception>
#include <optional>

#include "app/ending.h"
#include "app/for_flag.h"

namespace ringscope {
namespace {

constexpr Index kDefaultEvery = 100;  // steps

}  // namespace

TrainJournal::TrainJournal(const TrainOptions& options, const TrainSetup& setup)
    : options_(options), setup_(setup), losses_(setup.losses) {}

void TrainJournal::write_losses() const {
  if (!options_.loss_csv) return;
  for_flag("--loss-csv", [&] { write_loss_csv(*options_.loss_csv, losses_); });
}

// The losses first: whoever ends this process in between leaves rows that are too many, which a
// run that goes on replaces, and none that are missing. But the checkpoint is what was trained for,
// so it is written even where they could not be.
void TrainJournal::write(bool losses, const Checkpoint* checkpoint) {
  std::optional<RunError> failed;
  const auto attempt = [&](const auto& write_one) {
    try {
      write_one();
    } catch (const std::exception& error) {  // InputError, too: what was asked for was good once
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
