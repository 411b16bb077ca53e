#include "bench/training/equality.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/train/training.h"

namespace ringscope {
namespace {

constexpr Index kLast = 10;  // steps whose mean loss is printed, because batches differ

struct Training {
  std::vector<double> losses;
  double seconds = 0;

  double last() const {
    const Index count = std::min<Index>(kLast, std::ssize(losses));
    double sum = 0;
    for (Index i = 0; i < count; ++i)
      sum += losses[losses.size() - 1 - static_cast<std::size_t>(i)];
    return sum / static_cast<double>(count);
  }
};

Training train(const std::string& text, const Deal& deal, Index steps) {
  using Clock = std::chrono::steady_clock;
  Training training;
  const Clock::time_point begin = Clock::now();
  train_on_threads(TrainingSettings{}, deal, text, nullptr, steps,
                   [&](const StepReport& report, const TrainingRank&) {
                     training.losses.push_back(report.loss);
                   });
  training.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return training;
}

}  // namespace

void print_equality(const std::string& text, Index steps) {
  std::vector<Index> shown;
  for (const Index step : {1, 10, 50, 100, 200, 500, 1000})
    if (step < steps) shown.push_back(step);
  shown.push_back(steps);

  fmt::print("{} bytes of text, unigram entropy {:.4f} nats\n", text.size(), unigram_entropy(text));
  fmt::print("largest relative difference to the losses of one rank, up to step\n{:<16}", "");
  for (const Index step : shown) fmt::print("{:>10}", step);
  fmt::print("   loss (mean of {})  seconds\n", kLast);
  Training alone;
  double most = 0;
  for (const int world_size : {1, 2, 4})
    for (const PartitionKind partition : kAllPartitions) {
      const Training training = train(text, {partition, world_size}, steps);
      if (alone.losses.empty()) alone = training;
      fmt::print("N {} {:<12}", world_size, name_of(partition));
      double largest = 0;
      for (Index step = 1; step <= steps; ++step) {
        const auto at = static_cast<std::size_t>(step - 1);
        largest =
            std::max(largest, std::abs(training.losses[at] - alone.losses[at]) / alone.losses[at]);
        if (std::find(shown.begin(), shown.end(), step) != shown.end())
          fmt::print("{:>10.1e}", largest);
      }
      fmt::print("{:>18.4f} {:>8.1f}\n", training.last(), training.seconds);
      std::fflush(stdout);
      most = std::max(most, largest);
    }
  fmt::print("largest of all: {:.2e}\n", most);
}

}  // namespace ringscope
