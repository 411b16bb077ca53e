#include "bench/training/timed_steps.h"

#include <chrono>
#include <memory>

#include "bench/training/metered_backend.h"
#include "core/cost/time.h"
#include "core/model/rank_threads.h"
#include "core/train/training.h"

namespace ringscope {
namespace {

// A rank that trains over a metered backend.
struct MeteredRank {
  MeteredRank(const TrainingSettings& settings, const Deal& deal, const TextBatches& batches,
              Communicator& comm)
      : training(settings, deal, batches, comm), backend(training.replica().ring().own_backend()) {
    training.replica().ring().run_over(comm, backend);
  }

  TimedStep so_far() {
    const AttentionSeconds& attention = training.replica().ring().seconds();
    return {
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
        attention.forward + attention.backward, process_cpu_seconds(), backend.cpu_s()};
  }

  TrainingRank training;
  MeteredBackend backend;
};

}  // namespace

std::vector<TimedStep> timed_steps(const TrainingSettings& settings, const Deal& deal,
                                   const std::string& text, int steps) {
  const TextBatches batches(text, settings.batch, settings.seqlen, settings.seed);
  // By rank. A step ends with the sum of all ranks' gradients, so ranks begin the next together.
  std::vector<std::vector<TimedStep>> timed(static_cast<std::size_t>(deal.world_size));
  run_rank_threads(
      deal.world_size,
      [&](Communicator& comm) {
        return std::make_unique<MeteredRank>(settings, deal, batches, comm);
      },
      [&](MeteredRank& rank) {
        rank.training.step();
        for (int step = 0; step < steps; ++step) {
          const TimedStep before = rank.so_far();
          rank.training.step();
          const TimedStep now = rank.so_far();
          timed[static_cast<std::size_t>(rank.training.rank())].push_back(
              {now.wall_s - before.wall_s, now.attention_s - before.attention_s,
               now.cpu_s - before.cpu_s, now.attention_cpu_s - before.attention_cpu_s});
        }
      });
  std::vector<TimedStep> result = timed[0];
  for (std::size_t step = 0; step < result.size(); ++step) {
    result[step].attention_s = result[step].attention_cpu_s = 0;
    for (const auto& of_rank : timed) {
      result[step].attention_s += of_rank[step].attention_s / deal.world_size;
      result[step].attention_cpu_s += of_rank[step].attention_cpu_s;
    }
  }
  return result;
}

}  // namespace ringscope
