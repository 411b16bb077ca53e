// Training and generating with a process per rank.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/processes/mpi/mpi_calls.h"
#include "core/processes/mpi/rank_process.h"
#include "core/processes/mpi/rank_report.h"
#include "core/training/generate.h"
#include "core/training/training.h"

namespace ringscope {
FinishedTraining train_on_mpi(MpiSession& session, const TrainingPlan& plan,
                              const std::string& text, const AfterStep& after_step) {
  const TrainingSettings& settings = plan.settings;
  const TextBatches batches(text, settings.batch, settings.seqlen, settings.seed,
                            settings.shape.vocab);
  RankProcess<TrainingRank> process(session);
  ProcessWait wait(process.pulse());
  // The clocks of all ranks are read for recordings only.
  const auto clock = [&] {
    return plan.recorded_step == 0 ? std::nullopt
                                   : exchange_clocks(session.rank(), session.world_size(), wait);
  };
  return process.run([&] {
    const std::optional<ClockReading> before = clock();
    TrainingRank& rank = process.join_ring(plan, batches);
    rank.run(outside(process.pulse(), after_step));  // the others wait for rank 0 meanwhile
    process.leave_ring();
    const std::optional<ClockReading> after = clock();

    std::string report = bytes_of_value(rank.costs());
    if (std::optional<RankEvents>& events = rank.recorded()) {
      if (before && !events->events.empty()) {  // to rank 0's clock
        const ClockMap map(*before, *after);
        const std::int64_t offset = map.offset_at(events->events.front().begin_ns);
        events->clock_error_ns += map.error();
        events = moved_by(std::move(*events), offset);
      }
      report += pack(*events);
    }
    FinishedTraining finished;
    std::vector<RankEvents> recorded;
    const std::vector<std::string> reports = session.gather(report);
    for (std::string_view of_rank : reports) {
      finished.ranks.push_back(take_value<RankCosts>(of_rank));
      if (!of_rank.empty()) recorded.push_back(unpack_rank_events(of_rank));
    }
    if (session.rank() != 0) return finished;
    finished.end = rank.checkpoint();
    if (plan.recorded_step != 0) {
      finished.recording = recording_of(plan, std::move(recorded));
      finished.recording->info.backend = "mpi";
    }
    return finished;
  });
}

Generated generate_on_mpi(MpiSession& session, const Checkpoint& checkpoint, const Deal& deal,
                          const GenerateOptions& options, const OnByte& on_byte) {
  RankProcess<GeneratingRank> process(session);
  return process.run([&] {
    GeneratingRank& rank = process.join_ring(checkpoint, deal, options);
    Generated generated;
    generated.text = rank.generate(outside(process.pulse(), on_byte));
    process.leave_ring();
    const auto reports = session.gather(bytes_of_value(rank.share()));
    for (std::string_view report : reports)
      generated.shares.push_back(take_value<GeneratedShare>(report));
    return session.rank() == 0 ? std::move(generated) : Generated();
  });
}

}  // namespace ringscope
