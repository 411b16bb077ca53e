// `train` as one rank of a job: rank 0 reads text and checkpoint and hands them out.
#ifdef RINGSCOPE_HAS_MPI

#include <optional>

#include "app/job_part.h"
#include "app/progress.h"
#include "app/train_command.h"
#include "app/train_journal.h"
#include "app/train_report.h"
#include "app/train_setup.h"
#include "core/process/agreement.h"
#include "core/train/train_on_mpi.h"

namespace ringscope {
namespace {

class TrainPart : public JobPart {
 public:
  TrainPart(MpiSession& session, const TrainOptions& options)
      : session_(session), line_(session.lifeline()), options_(options) {}

  void prepare() override {
    require_world_size(session_, options_.world_size);
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
      // Rank 0 has not refused it.
      set_up_from(options_, session_.world_size(), text, checkpoint, setup_);
      require_training_memory(setup_, 1);
    }
    agree(line_, {});  // now everybody knows that all have the memory for it
    const Stopwatch watch;
    std::optional<ProgressBar> bar;
    if (is_first()) bar.emplace("training");
    finished_ = run_training_on_mpi(session_, setup_.plan, setup_.text,
                                    [&](const StepReport& report, const TrainingRank& rank_0) {
                                      journal_->note(report, rank_0);
                                      if (const auto progress = bar->callback())
                                        progress(share_done(setup_.plan, report.step));
                                    });
    seconds_ = watch.seconds();
  }

  int conclude() override {
    conclude_training(options_, setup_, *journal_, finished_, seconds_);
    return 0;
  }

  RunError leave_behind(const RunError& failure, const std::exception&) override {
    return journal_ ? journal_->close_failed(failure) : failure;
  }

 private:
  bool is_first() const { return session_.rank() == 0; }

  MpiSession& session_;
  Lifeline& line_;
  const TrainOptions& options_;
  TrainSetup setup_;
  FinishedTraining finished_;
  double seconds_ = 0;
  std::optional<TrainJournal> journal_;  // rank 0's alone
};

}  // namespace

std::unique_ptr<JobPart> make_train_part(MpiSession& session, const TrainOptions& options) {
  return std::make_unique<TrainPart>(session, options);
}

}  // namespace ringscope

#endif
