// Compares training steps on several ranks with one rank, in turn, and attention's share of them
// with the prediction of `ringscope plan`. The machine must be otherwise idle.
//
//   build/release/bench/training/bin/training [--shapes 4096x1,256x16] [--world-sizes 2]
//       [--partitions zigzag,fold] [--repeats 7] [--steps 3] [--text FILE]
//   build/release/bench/training/bin/training --equality [--steps 200] [--text FILE]
//
//   step       the fastest step, and the median of all
//   of one     the fastest step / that of one rank; in parentheses, processor time of all ranks
//   attention  share of the step inside both passes of the ring, mean over ranks; in parentheses,
//              share of all ranks' processor time that attention computes, which hardly changes
//              when the machine has other work; medians
//   plan       the share that `plan --measure` predicts, measured in turn, the median; the ratio
//              over each of the two shares; and the predicted step / the fastest one

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/programs.h"
#include "core/base/error.h"
#include "core/base/math.h"
#include "core/cost/time.h"
#include "core/model/rank_threads.h"
#include "core/run/faulty_ring.h"
#include "core/run/generated_rows.h"
#include "core/train/training.h"
#include "core/train/training_settings.h"

namespace ringscope {
namespace {

struct Options {
  std::vector<std::string> shapes = {"4096x1", "256x16"};  // SEQLENxBATCH
  std::vector<int> world_sizes = {2};                      // each beside one rank
  std::vector<std::string> partitions = {"zigzag"};
  int repeats = 7;
  Index steps = 0;   // 0: 3 timed ones in each turn, or 200 with --equality
  std::string text;  // a file; "": the project's own sources
  bool equality = false;
};

void add_to(CLI::App& app, Options& options) {
  app.add_option("--shapes", options.shapes)->delimiter(',');
  app.add_option("--world-sizes", options.world_sizes)->delimiter(',')->check(kPositive);
  app.add_option("--partitions", options.partitions)->delimiter(',');
  app.add_option("--repeats", options.repeats)->check(kPositive);
  app.add_option("--steps", options.steps)->check(kPositive);
  app.add_option("--text", options.text);
  app.add_flag("--equality", options.equality);
}

// Return the default training at `shape`, SEQLENxBATCH.
TrainingSettings settings_of(const std::string& shape) {
  TrainingSettings settings;
  char rest = 0;
  if (std::sscanf(shape.c_str(), "%tdx%td%c", &settings.seqlen, &settings.batch, &rest) != 2)
    throw InputError(fmt::format("--shapes: '{}' given, SEQLENxBATCH accepted", shape));
  validate(settings);
  return settings;
}

// Return the file's text, or that of the project's sources.
std::string text_of(const Options& options) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths = {options.text};
  if (options.text.empty()) {
    paths.clear();
    for (const char* folder : {"app", "bench", "core", "cuda", "lessons", "tests", "viz"})
      for (const auto& entry :
           fs::recursive_directory_iterator(fs::path(RINGSCOPE_SOURCE_DIR) / folder))
        if (const std::string end = entry.path().extension(); end == ".h" || end == ".cpp")
          paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
  }
  std::string text;
  for (const std::string& path : paths) text += read_text(path, text_length(path));
  return text;
}

// ---
// A backend that forwards to another one and adds up the processor time spent in it.

class MeteredBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  double cpu_s() const { return cpu_s_; }

 private:
  Completion around(BlockOperation, const StepInfo*, const Completion& after,
                    const Start& start) override {
    const double begin = thread_cpu_seconds();
    const Completion started = start(after);
    cpu_s_ += thread_cpu_seconds() - begin;
    return started;
  }

  double cpu_s_ = 0;
};

// ---
// Measures how far the losses of training differ between numbers of ranks and partitions, and what
// loss training reaches.

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

// Train `steps` steps at the default settings on 1, 2 and 4 ranks in all partitions. Print the
// relative differences of the losses to those of one rank, step by step, the loss beside the
// unigram entropy of `text`, and the time taken.
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

// ---
// Times training steps: each step as a whole, and the part of it inside attention.

struct TimedStep {
  double wall_s = 0;
  double attention_s = 0;      // mean over ranks: both passes of the ring, waits included
  double cpu_s = 0;            // processor time of all ranks, their communicators' threads included
  double attention_cpu_s = 0;  // the part of cpu_s that attention computes
};

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

// Time `steps` steps on threads, after one that is not timed.
std::vector<TimedStep> timed_steps(const TrainingSettings& settings, const Deal& deal,
                                   const std::string& text, Index steps) {
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
        for (Index step = 0; step < steps; ++step) {
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

// ---
// The program.

struct Predicted {
  double share = 0, step_s = 0;
};

// The problem of a turn, and its results.
struct Row {
  Deal deal;
  std::vector<TimedStep> steps;
  std::vector<Predicted> plans;
};

// Return number(each) of all steps or predictions.
template <class T, class Number>
std::vector<double> numbers(const std::vector<T>& all, const Number& number) {
  std::vector<double> values;
  for (const T& each : all) values.push_back(number(each));
  return values;
}

Predicted predict(const TrainingSettings& settings, const Deal& deal) {
  const ModelShape& s = settings.shape;
  const rapidjson::Document json = parsed(output_of(fmt::format(
      "'{}' plan --measure --world-size {} --partition {} --scheme ring --batch {} --seqlen {} "
      "--heads {} --heads-kv {} --head-dim {} --dtype f32 --mask {} --backward --layers {} "
      "--width {} --hidden {} --vocab {} --json",
      RINGSCOPE_PROGRAM, deal.world_size, name_of(deal.partition), settings.batch, settings.seqlen,
      s.num_heads, s.num_heads_kv, s.head_dim, settings.mask, s.layers, s.width, s.hidden,
      s.vocab)));
  if (!json.HasMember("model")) throw RunError("plan says nothing of the model");
  return {number_in(json["model"], "attention_share"), number_in(json["model"], "total_s")};
}

void print_rows(const TrainingSettings& settings, const std::vector<Row>& rows) {
  const auto wall = [](const TimedStep& step) { return step.wall_s; };
  const auto cpu = [](const TimedStep& step) { return step.cpu_s; };
  const auto share = [](const TimedStep& step) { return step.attention_s / step.wall_s; };
  const auto cpu_share = [](const TimedStep& step) { return step.attention_cpu_s / step.cpu_s; };
  const double alone = least_of(numbers(rows[0].steps, wall)),
               alone_cpu = least_of(numbers(rows[0].steps, cpu));
  for (const Row& row : rows) {
    const double step = least_of(numbers(row.steps, wall)),
                 attention = median_of(numbers(row.steps, share));
    const double computing = median_of(numbers(row.steps, cpu_share));
    const double plan = median_of(numbers(row.plans, [](const Predicted& f) { return f.share; }));
    const double plan_step =
        median_of(numbers(row.plans, [](const Predicted& f) { return f.step_s; }));
    fmt::print(
        "{:>5} x {:<3} N {} {:<11} step {:7.1f} ms (median {:7.1f})  of one {:.3f} (processor "
        "{:.3f})  attention {:.3f} ({:.3f})  plan {:.3f}, over it {:.3f} ({:.3f})  step {:.3f}\n",
        settings.seqlen, settings.batch, row.deal.world_size, name_of(row.deal.partition),
        1e3 * step, 1e3 * median_of(numbers(row.steps, wall)), step / alone,
        least_of(numbers(row.steps, cpu)) / alone_cpu, attention, computing, plan, plan / attention,
        plan / computing, plan_step / step);
  }
  std::fflush(stdout);
}

void run(const Options& options) {
  const std::string text = text_of(options);
  if (options.equality) return print_equality(text, options.steps > 0 ? options.steps : 200);
  for (const std::string& shape : options.shapes) {
    const TrainingSettings settings = settings_of(shape);
    std::vector<Row> rows = {{{PartitionKind::contiguous, 1}, {}, {}}};
    for (const int world_size : options.world_sizes)
      for (const std::string& partition : options.partitions)
        rows.push_back({{parse_partition(partition), world_size}, {}, {}});
    for (int i = 0; i < options.repeats; ++i)
      for (Row& row : rows) {
        const Index steps = options.steps > 0 ? options.steps : 3;
        for (const TimedStep& step : timed_steps(settings, row.deal, text, steps))
          row.steps.push_back(step);
        row.plans.push_back(predict(settings, row.deal));
      }
    print_rows(settings, rows);
  }
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  ringscope::Options options;
  CLI::App app("training steps on several ranks against one, and against plan");
  ringscope::add_to(app, options);
  return ringscope::run_program(app, argc, argv, [&] { ringscope::run(options); });
}
