// Training and generating with a process per rank.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/model/generate.h"
#include "core/model/step_recorder.h"
#include "core/model/training.h"
#include "core/ranks/mpi/clock.h"
#include "core/ranks/mpi/mpi_calls.h"
#include "core/ranks/mpi/rank_process.h"
#include "core/ranks/mpi/rank_report.h"

namespace ringscope {
namespace {

class ProcessTraining {
 public:
  ProcessTraining(MpiSession& session, const TrainingPlan& plan, const std::string& text)
      : session_(session),
        plan_(plan),
        batches_(text, plan.settings.batch, plan.settings.seqlen, plan.settings.seed,
                 plan.settings.shape.vocab),
        process_(session),
        wait_(process_.pulse()) {}

  FinishedTraining run(const AfterStep& after_step) {
    return process_.run([&] { return train(after_step); });
  }

 private:
  FinishedTraining train(const AfterStep& after_step) {
    read_clock(before_);
    TrainingRank& rank = process_.join_ring(plan_, batches_);
    rank.run(process_.outside(after_step));  // the others wait for rank 0 meanwhile
    process_.leave_ring();
    read_clock(after_);
    return gather(rank);
  }

  // Read the clocks of all ranks, which only recordings need.
  void read_clock(std::optional<ClockReading>& reading) {
    if (plan_.recorded_step != 0)
      reading = exchange_clocks(session_.rank(), session_.world_size(), wait_);
  }

  // Return what the rank recorded, by rank 0's clock.
  std::optional<RankEvents> recorded_by(TrainingRank& rank) {
    std::optional<RankEvents> events = std::move(rank.recorded());
    if (!events || !before_ || events->events.empty()) return events;
    const ClockMap map(*before_, *after_);
    const std::int64_t offset = map.offset_at(events->events.front().begin_ns);
    events->clock_error_ns += map.error();
    return moved_by(std::move(*events), offset);
  }

  FinishedTraining gather(TrainingRank& rank) {
    FinishedTraining finished;
    std::vector<RankEvents> events;
    const std::optional<RankEvents> recorded = recorded_by(rank);
    const std::vector<std::string> reports =
        session_.gather(bytes_of_value(rank.costs()) + (recorded ? pack(*recorded) : ""));
    for (std::string_view report : reports) {
      finished.ranks.push_back(take_value<RankCosts>(report));
      if (plan_.recorded_step != 0) events.push_back(unpack_rank_events(report));
    }
    if (session_.rank() != 0) return finished;
    finished.end = rank.checkpoint();
    if (plan_.recorded_step != 0) {
      finished.recording = recording_of(plan_, std::move(events));
      finished.recording->info.backend = "mpi";
    }
    return finished;
  }

  MpiSession& session_;
  const TrainingPlan& plan_;
  const TextBatches batches_;
  RankProcess<TrainingRank> process_;
  ProcessWait wait_;
  std::optional<ClockReading> before_, after_;
};

}  // namespace

FinishedTraining train_on_mpi(MpiSession& session, const TrainingPlan& plan,
                              const std::string& text, const AfterStep& after_step) {
  return ProcessTraining(session, plan, text).run(after_step);
}

Generated generate_on_mpi(MpiSession& session, const Checkpoint& checkpoint,
                          PartitionKind partition, const GenerateOptions& options,
                          const OnByte& on_byte) {
  const Deal deal{partition, session.world_size()};
  RankProcess<GeneratingRank> process(session);
  return process.run([&] {
    GeneratingRank& rank = process.join_ring(checkpoint, deal, options);
    Generated generated;
    generated.text = rank.generate(process.outside(on_byte));
    process.leave_ring();
    const auto reports = session.gather(bytes_of_value(rank.share()));
    for (std::string_view report : reports)
      generated.shares.push_back(take_value<GeneratedShare>(report));
    return session.rank() == 0 ? std::move(generated) : Generated();
  });
}

}  // namespace ringscope
