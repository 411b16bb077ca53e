#include "app/train_journal.h"

#include <fmt/format.h>

#include "app/for_flag.h"

namespace ringscope {
namespace {

constexpr Index kDefaultCheckpointEvery = 100;

}  // namespace

TrainJournal::TrainJournal(const TrainOptions& options, const TrainSetup& setup)
    : options_(options), setup_(setup), losses_(setup.losses) {}

void TrainJournal::write_losses() const {
  if (!options_.loss_csv) return;
  for_flag("--loss-csv", [&] { write_loss_csv(*options_.loss_csv, losses_); });
}

// The losses first: whoever ends this process in between leaves rows that are too many, which a
// run that goes on replaces, and none that are missing.
void TrainJournal::write_checkpoint(const Checkpoint& checkpoint) {
  write_losses();
  for_flag("--checkpoint", [&] { save_checkpoint(*options_.checkpoint, checkpoint); });
  saved_step_ = checkpoint.step;
}

void TrainJournal::note(const StepReport& report, const TrainingRank& rank_0) {
  losses_.push_back({report.step, report.loss});
  const Index every = options_.checkpoint_every.value_or(kDefaultCheckpointEvery);
  if (options_.checkpoint && report.step % every == 0) write_checkpoint(rank_0.checkpoint());
}

void TrainJournal::close(const Checkpoint& end) {
  if (options_.checkpoint && saved_step_ != end.step) return write_checkpoint(end);
  write_losses();
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
