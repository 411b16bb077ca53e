#include "core/train/train_on_mpi.h"

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "core/mpi/clock_exchange.h"
#include "core/mpi/mpi_calls.h"
#include "core/mpi/mpi_engine.h"

namespace ringscope {
namespace {

// How long a rank that was told of a failure waits for rank 0's word on it.
constexpr double kFailureSeconds = 1;

static_assert(std::is_trivially_copyable_v<RankCosts>);

// A rank's costs, and behind them what it recorded, if anything.
std::string pack(const RankCosts& costs, const std::optional<RankEvents>& recorded) {
  std::string bytes(sizeof costs, '\0');
  std::memcpy(bytes.data(), &costs, sizeof costs);
  return recorded ? bytes + pack(*recorded) : bytes;
}

class ProcessTraining {
 public:
  ProcessTraining(MpiSession& session, const TrainingPlan& plan, const std::string& text)
      : session_(session),
        line_(session.lifeline()),
        plan_(plan),
        batches_(text, plan.settings.batch, plan.settings.seqlen, plan.settings.seed),
        engine_(line_),
        wait_(engine_, pulse_) {
    line_.watch(pulse_, [this](const RunError& error) { stop(error); });
  }
  ~ProcessTraining() { line_.unwatch(); }

  FinishedTraining run(const AfterStep& after_step) {
    read_clock(before_);
    comm_ = std::make_unique<MpiCommunicator>(engine_.waits(), session_.rank(),
                                              session_.world_size(), options());
    rank_ = std::make_unique<MeasuredRank>(plan_, batches_, *comm_, &pulse_);
    rank_->run(after_step);
    comm_.reset();  // from here on this thread calls MPI again
    read_clock(after_);
    return gather();
  }

  // Tells everybody, and throws what rank 0 then says of the run.
  [[noreturn]] void fail(const RunError& error) {
    line_.fail(error);
    const RunError agreed = line_.wait_for_failure(kFailureSeconds).value_or(error);
    stop(agreed);
    comm_.reset();
    line_.unwatch();
    if (rank_ != nullptr)
      keep_until_exit(std::move(rank_));  // hops that never ended name its memory
    throw agreed;
  }

 private:
  // Ends every wait, and the work of a long step.
  void stop(const RunError& error) {
    engine_.fail(error);
    pulse_.stop();
  }

  MpiCommunicator::Options options() {
    MpiCommunicator::Options options;
    options.pulse = &pulse_;
    options.on_failure = [this](const RunError& error) { line_.fail(error); };
    return options;
  }

  // Only recordings need one clock.
  void read_clock(std::optional<ClockReading>& reading) {
    if (plan_.recorded_step != 0)
      reading = exchange_clocks(session_.rank(), session_.world_size(), wait_);
  }

  // By rank 0's clock.
  std::optional<RankEvents> recorded() {
    std::optional<RankEvents> events = std::move(rank_->recorded());
    if (!events || !before_ || events->events.empty()) return events;
    const ClockMap map(*before_, after_);
    const std::int64_t offset = map.offset_at(events->events.front().begin_ns);
    events->clock_error_ns += map.error(events->events.back().end_ns);
    return moved_by(std::move(*events), offset);
  }

  FinishedTraining gather() {
    FinishedTraining finished;
    std::vector<RankEvents> events;
    for (const std::string& report : line_.gather(pack(rank_->costs(), recorded()))) {
      RankCosts costs;
      if (report.size() < sizeof costs) throw RunError("a rank's report is too short");
      std::memcpy(&costs, report.data(), sizeof costs);
      finished.ranks.push_back(costs);
      if (plan_.recorded_step != 0)
        events.push_back(unpack_rank_events(std::string_view(report).substr(sizeof costs)));
    }
    if (session_.rank() != 0) return finished;
    finished.end = rank_->training().checkpoint();
    if (plan_.recorded_step != 0) {
      finished.recording = recording_of(plan_, std::move(events));
      finished.recording->info.backend = "mpi";
    }
    return finished;
  }

  MpiSession& session_;
  Lifeline& line_;
  const TrainingPlan& plan_;
  const TextBatches batches_;
  RankPulse pulse_;
  MpiEngine engine_;
  ProcessWait wait_;
  std::optional<ClockReading> before_, after_;
  std::unique_ptr<MeasuredRank> rank_;
  std::unique_ptr<MpiCommunicator> comm_;  // ends before the rank, whose memory it may still touch
};

}  // namespace

FinishedTraining run_training_on_mpi(MpiSession& session, const TrainingPlan& plan,
                                     const std::string& text, const AfterStep& after_step) {
  ProcessTraining training(session, plan, text);
  try {
    return training.run(after_step);
  } catch (const RunError& error) {
    training.fail(error.rank() >= 0 ? error : RunError(error.what(), session.rank()));
  } catch (const std::bad_alloc&) {
    training.fail(RunError("out of memory", session.rank()));
  } catch (const std::exception& error) {
    training.fail(RunError(error.what(), session.rank()));
  }
}

}  // namespace ringscope
