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
#include <cstdio>
#include <vector>

#include "bench/program_output.h"
#include "bench/training/equality.h"
#include "bench/training/options.h"
#include "bench/training/timed_steps.h"
#include "core/base/error.h"

namespace ringscope {
namespace {

struct Predicted {
  double share = 0, step_s = 0;
};

// The problem of a turn, and its results.
struct Row {
  Deal deal;
  std::vector<TimedStep> steps;
  std::vector<Predicted> plans;
};

template <class T, class Number>
double median_of(const std::vector<T>& all, const Number& number) {
  std::vector<double> values;
  for (const T& each : all) values.push_back(number(each));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Number>
double least_of(const std::vector<TimedStep>& all, const Number& number) {
  double least = number(all.front());
  for (const TimedStep& each : all) least = std::min(least, number(each));
  return least;
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

void print_rows(const StepShape& shape, const std::vector<Row>& rows) {
  const auto wall = [](const TimedStep& step) { return step.wall_s; };
  const auto cpu = [](const TimedStep& step) { return step.cpu_s; };
  const auto share = [](const TimedStep& step) { return step.attention_s / step.wall_s; };
  const auto cpu_share = [](const TimedStep& step) { return step.attention_cpu_s / step.cpu_s; };
  const double alone = least_of(rows[0].steps, wall), alone_cpu = least_of(rows[0].steps, cpu);
  for (const Row& row : rows) {
    const double step = least_of(row.steps, wall), attention = median_of(row.steps, share);
    const double computing = median_of(row.steps, cpu_share);
    const double plan = median_of(row.plans, [](const Predicted& f) { return f.share; });
    const double plan_step = median_of(row.plans, [](const Predicted& f) { return f.step_s; });
    fmt::print(
        "{:>5} x {:<3} N {} {:<11} step {:7.1f} ms (median {:7.1f})  of one {:.3f} (processor "
        "{:.3f})  attention {:.3f} ({:.3f})  plan {:.3f}, over it {:.3f} ({:.3f})  step {:.3f}\n",
        shape.seqlen, shape.batch, row.deal.world_size, name_of(row.deal.partition), 1e3 * step,
        1e3 * median_of(row.steps, wall), step / alone, least_of(row.steps, cpu) / alone_cpu,
        attention, computing, plan, plan / attention, plan / computing, plan_step / step);
  }
  std::fflush(stdout);
}

void run(const TrainingBenchOptions& options) {
  const std::string text = text_of(options);
  if (options.equality) return print_equality(text, options.equality_steps);
  for (const StepShape& shape : options.shapes) {
    TrainingSettings settings;
    settings.seqlen = shape.seqlen;
    settings.batch = shape.batch;
    validate(settings);
    std::vector<Row> rows = {{{PartitionKind::contiguous, 1}, {}, {}}};
    for (const int world_size : options.world_sizes)
      for (const PartitionKind partition : options.partitions)
        rows.push_back({{partition, world_size}, {}, {}});
    for (int i = 0; i < options.repeats; ++i)
      for (Row& row : rows) {
        for (const TimedStep& step : timed_steps(settings, row.deal, text, options.steps))
          row.steps.push_back(step);
        row.plans.push_back(predict(settings, row.deal));
      }
    print_rows(shape, rows);
  }
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  try {
    ringscope::run(ringscope::options_of(argc, argv));
    return 0;
  } catch (const ringscope::InputError& error) {
    fmt::print(stderr, "training: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "training: {}\n", error.what());
    return 3;
  }
}
