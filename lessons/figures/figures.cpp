#include "lessons/figures/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/attention/online_softmax.h"
#include "core/base/dtype.h"
#include "core/base/fields.h"
#include "core/base/text.h"
#include "core/ring/ring.h"
#include "core/tools/cost/balance.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/recording.h"
#include "core/tools/sim/scenario.h"
#include "core/trace/summary.h"
#include "core/training/decode_attention.h"

namespace ringscope::lessons {
namespace figures {
namespace {

using Arguments = std::vector<std::string>;

template <class T>
T number_of(const char* what, const std::string& text, T least, T most) {
  const std::optional<T> value = parse_number<T>(text);
  if (value && *value >= least && *value <= most) return *value;
  throw InputError(
      fmt::format("{}: '{}' given; accepted: a number from {} to {}", what, text, least, most));
}

// Return a job of the heads that models use today, with the mask, ranks and length of a figure.
Problem job_of(const std::string& mask, const std::string& ranks, const std::string& length) {
  Problem job;
  job.shape = {1, 32, 8, number_of<Index>("length", length, 1, 1 << 24), 128};
  job.dtype = DType::bf16;
  job.mask = MaskSpec::parse(mask);
  job.world_size = number_of("ranks", ranks, 1, 32);
  return job;
}

Fields overlap(const Arguments& arguments) {
  Problem job;
  job.shape.num_heads = job.shape.num_heads_kv = 1;
  job.shape.head_dim = 128;
  job.dtype = DType::bf16;
  Rates rates{number_of("F", arguments.at(0), 1.0, 1e5) * 1e12, 0,
              number_of("B", arguments.at(1), 0.1, 1e5) * 1e9, 0};
  if (const auto names = ringscope::split(arguments.at(2), ' '); names.size() == 2)
    rates = rates_of(find_gpu(std::string(names[0])), find_link(std::string(names[1])), job.dtype);
  std::vector<double> rows, computing, sending;
  for (int power = 0; power <= 56; ++power) {
    rows.push_back(64 * std::pow(2.0, power / 4.0));
    computing.push_back(compute_seconds(job, rates, Pass::forward, rows.back() * rows.back()));
    sending.push_back(hop_seconds(job, rates, Pass::forward, rows.back()));
  }
  return {{"F", rates.forward_flops},
          {"B", rates.bytes_per_s},
          {"rows", rows},
          {"computing", computing},
          {"sending", sending},
          {"crossing", threshold_rows(job, rates, Pass::forward, 1)}};
}

Fields merge_parts(const Arguments& arguments) {
  std::vector<double> scores, values;
  for (const std::string_view text : ringscope::split(arguments.at(0), ',')) {
    scores.push_back(number_of("score", std::string(text), -1e6, 1e6));
    values.push_back(10.0 * scores.size());
  }
  const auto cut =
      static_cast<std::size_t>(number_of<Index>("split", arguments.at(1), 0, std::ssize(scores)));
  struct Part {
    RowState<double> state;
    double out = 0;
  };
  const auto attend = [&](std::size_t first, std::size_t last) {
    Part part;
    carry_on<double>(part.state, {&part.out, 1},
                     std::span<const double>(scores).subspan(first, last - first),
                     values.data() + first);
    return part;
  };
  const auto show = [](const Part& part) {
    const RowState<double>& state = part.state;
    return Fields{{"m", state.row_max}, {"l", state.row_sum}, {"out", part.out / state.row_sum}};
  };
  const Part a = attend(0, cut), b = attend(cut, scores.size());
  Part merged = a;
  merge<double>(merged.state, {&merged.out, 1}, b.state, {&b.out, 1});
  return {{"a", show(a)},
          {"b", show(b)},
          {"merged", show(merged)},
          {"once", show(attend(0, scores.size()))}};
}

Fields ring_step(const Arguments& arguments) {
  const int ranks = number_of("ranks", arguments.at(0), 1, 64);
  const bool backward = arguments.at(2) == "backward";
  const int step = number_of("step", arguments.at(1), 0, backward ? ranks : ranks - 1);
  std::vector<Index> owners;
  for (int rank = 0; rank < ranks; ++rank) owners.push_back(RingSchedule{rank, ranks}.owner(step));
  return {{"owners", owners}, {"steps", backward ? ranks + 1 : ranks}};
}

Fields count(const Arguments& arguments) {
  const auto ones = number_of<Index>("ones", arguments.at(0), 0, 1 << 20);
  bf16 narrow = bf16::from_float(0);
  float wide = 0;
  for (Index i = 0; i < ones; ++i) {
    narrow = bf16::from_float(narrow.to_float() + 1);
    wide += 1;
  }
  return {{"bf16", double{narrow.to_float()}}, {"f32", double{wide}}};
}

// ---
// Races: what each rank does when, as the simulator has it.

// Return a scenario of H100s that NVLink4 joins, whose ranks run ahead by one block.
Scenario scenario_of(Problem job) {
  Scenario scenario;
  scenario.job = std::move(job);
  scenario.pace = Pace::buffers;
  scenario.rates = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  scenario.between = find_link("InfiniBand-NDR");
  return scenario;
}

// Simulate a runner. Of each rank return its slices, each as lane, step, first and last nanosecond.
Fields runner(const Scenario& scenario) {
  const RecordedSimulation simulated = record(scenario, scenario.job.world_size);
  std::vector<std::vector<Index>> slices;
  for (const auto& events : simulated.recording.events) {
    std::vector<Index>& mine = slices.emplace_back();
    for (const TraceEvent& event : events)
      mine.insert(mine.end(),
                  {static_cast<Index>(event.lane), event.step, event.begin_ns, event.end_ns});
  }
  const Figures figures = figures_of(simulated.simulation);
  return {{"wall_s", figures.wall_s}, {"efficiency", figures.efficiency}, {"slices", slices}};
}

// Return a job's work by rank and step, and its race with zigzag.
Fields race(Problem job) {
  const RingProblem problem = job.ring_problem();
  std::vector<std::vector<Index>> pairs;
  std::vector<double> totals;
  for (int rank = 0; rank < job.world_size; ++rank) {
    std::vector<Index>& mine = pairs.emplace_back();
    for (int step = 0; step < job.world_size; ++step)
      mine.push_back(problem.region(rank, RingSchedule{rank, job.world_size}.owner(step)).pairs());
    totals.push_back(std::accumulate(mine.begin(), mine.end(), 0.0));
  }
  const Fields fields{{"pairs", pairs},
                      {"imbalance", imbalance(totals)},
                      {"ceiling", balance_of(job).ceiling()},
                      {"first", runner(scenario_of(job))}};
  job.partition = PartitionKind::zigzag;
  return fields + Fields{{"second", runner(scenario_of(job))}};
}

Fields work(const Arguments& arguments) {
  Problem job = job_of(arguments.at(0), arguments.at(2), arguments.at(3));
  job.partition = parse_partition(arguments.at(1));
  return race(job);
}

Fields deal(const Arguments& arguments) {
  Problem job = job_of(arguments.at(0), arguments.at(2), arguments.at(3));
  std::vector<Index> runs, holders;
  for (const std::string_view rank : ringscope::split(arguments.at(1), ' '))
    if (!rank.empty())
      holders.push_back(
          number_of<Index>("rank of a piece", std::string(rank), 0, job.world_size - 1));
  if (holders.empty() || holders.size() > 512)
    throw InputError(fmt::format("{} pieces given; accepted: 1 to 512", holders.size()));
  const Index pieces = std::ssize(holders);
  for (Index p = 0; p < pieces; ++p)
    if (const Index rows = balanced_chunk(job.shape.seqlen, pieces, p).count; rows > 0)
      runs.insert(runs.end(), {holders[p], rows});
  job.partition = PartitionSpec::recorded("dealt", runs, job.shape.seqlen, job.world_size);
  return Fields{{"holders", holders}} + race(job);
}

Fields nodes(const Arguments& arguments) {
  const auto rows = number_of<Index>("rows", arguments.at(2), 1, 1 << 20);
  Scenario scenario = scenario_of(job_of("causal", "8", std::to_string(8 * rows)));
  scenario.job.partition = PartitionKind::zigzag;
  scenario.job.nodes = 2;
  scenario.nics = number_of("cards", arguments.at(0), 1, 4);
  scenario.between.bytes_per_s = number_of("GB/s", arguments.at(1), 0.1, 1e4) * 1e9;
  scenario.stragglers = {{5, number_of("speed", arguments.at(3), 0.01, 1.0)}};
  const Fields flat{{"first", runner(scenario)}};
  set_scheme(scenario.job, "two-level:2");
  return flat + Fields{{"second", runner(scenario)}};
}

Fields decode(const Arguments& arguments) {
  Problem job = job_of("causal", arguments.at(0), arguments.at(1));
  job.partition = PartitionKind::zigzag;
  const Partition prompt = job.partition_of_sequence();
  const auto written = number_of<Index>("written", arguments.at(2), 0, 1 << 16);
  std::vector<Index> rows;
  for (int rank = 0; rank < job.world_size; ++rank) rows.push_back(prompt.rows_of(rank).size());
  const Fields before{{"prompt", rows}};
  for (Index p = job.shape.seqlen; p < job.shape.seqlen + written; ++p)
    ++rows[KvShard::home_of(prompt, p)];
  const AttentionShape& shape = job.shape;
  const MergeCost cost = merge_cost(parse_name(arguments.at(3), kAllOf<MergeKind>), shape.num_heads,
                                    shape.head_dim, job.world_size);
  const double latency = 1e-6 * number_of("µs", arguments.at(4), 0.0, 1e4);
  const double link = find_link("NVLink4").bytes_per_s;
  const auto most = static_cast<double>(*std::max_element(rows.begin(), rows.end()));
  const double block = most * (2 * shape.num_heads_kv * shape.head_dim) * 2;
  const auto hops = static_cast<double>(job.world_size - 1);
  return before + Fields{{"rows", rows},
                         {"rounds", cost.rounds},
                         {"ring_bytes", hops * block},
                         {"merge_bytes", cost.way_bytes},
                         {"reading_s", block / find_gpu("H100").memory_bytes_per_s.value()},
                         {"ring_s", hops * (latency + block / link)},
                         {"merge_s", cost.rounds * latency + cost.way_bytes / link}};
}

constexpr struct {
  const char* name;
  std::size_t arguments;
  Fields (*numbers)(const Arguments& arguments);
} kFigures[] = {{"work", 4, work},      {"overlap", 3, overlap}, {"merge", 2, merge_parts},
                {"ring", 3, ring_step}, {"count", 1, count},     {"deal", 4, deal},
                {"nodes", 4, nodes},    {"decode", 5, decode}};

}  // namespace
}  // namespace figures

std::string figure_numbers(const std::string& name, const std::vector<std::string>& arguments) {
  try {
    for (const auto& figure : figures::kFigures)
      if (name == figure.name && arguments.size() == figure.arguments)
        return Json(figure.numbers(arguments)).text();
    throw InputError(fmt::format("figure '{}' with {} arguments", name, arguments.size()));
  } catch (const InputError& error) {
    return Json(Fields{{"error", error.what()}}).text();
  }
}

}  // namespace ringscope::lessons
