// Verifies a run, builds the report and prints it as JSON or as a table.
#include "app/run/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/run/backend.h"
#include "core/attention/vectors.h"
#include "core/base/text.h"
#include "core/tools/check/mistakes.h"
#include "core/tools/explain/explain.h"

namespace ringscope {

namespace {

constexpr Index kOracleRows = 64;  // query rows at a time
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMostRms = 1.25;  // of one rank's, in bf16 and f16
// Shares of a row's size that are accepted besides; the second one in bf16 and f16, of sizes up to 1.
constexpr double kSlack = 1e-6, kSlackOf16Bits = 2e-3;

double largest_finite(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest;
}

void reverse_rows(std::vector<float>& tensor, Index width) {
  for (auto row = tensor.begin(); row != tensor.end(); row += width) std::reverse(row, row + width);
}

Problem on_one_rank(Problem config) {
  config.world_size = 1;
  config.scheme = default_scheme();
  config.partition = PartitionKind::contiguous;
  config.partition_q.reset();
  config.injection.reset();
  return config;
}

// Return one rank's outputs. If `reversed`, compute with the coordinates of every row in reverse
// order, which is the same problem rounded differently.
AttentionOutputs one_rank_outputs(const Problem& config, const AttentionInputs& inputs,
                                  const Runner& runner, bool reversed) {
  if (!reversed) {
    WholeInputs rows(config.shape, inputs);
    return std::move(runner(config, rows, {}).outputs);
  }
  AttentionInputs mirrored = inputs;
  const Index d = config.shape.head_dim, d_v = config.shape.value_dim();
  for (std::vector<float>* tensor : {&mirrored.q, &mirrored.k}) reverse_rows(*tensor, d);
  for (std::vector<float>* tensor : {&mirrored.v, &mirrored.dout}) reverse_rows(*tensor, d_v);
  WholeInputs rows(config.shape, mirrored);
  AttentionOutputs outputs = std::move(runner(config, rows, {}).outputs);
  for (std::vector<float>* tensor : {&outputs.dq, &outputs.dk}) reverse_rows(*tensor, d);
  for (std::vector<float>* tensor : {&outputs.out, &outputs.dv}) reverse_rows(*tensor, d_v);
  return outputs;
}

// Return the rows at `queries`, or all if none, of a tensor [batch * heads, seqlen, width].
std::vector<float> chosen_rows(const std::vector<float>& tensor, Index seqlen,
                               const std::vector<Index>& queries, Index width) {
  if (queries.empty()) return tensor;
  std::vector<float> rows;
  const Index heads = static_cast<Index>(tensor.size()) / (seqlen * width);
  for (Index head = 0; head < heads; ++head)
    for (const Index query : queries) {
      const auto row = tensor.begin() + (head * seqlen + query) * width;
      rows.insert(rows.end(), row, row + width);
    }
  return rows;
}

}  // namespace

TensorError compare(const std::vector<double>& reference, const std::vector<float>& values) {
  if (reference.size() != values.size()) return {kInfinity, kInfinity, kInfinity, 0, 0};
  const double floor = 1e-3 * largest_finite(reference);
  TensorError error;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const RowDistance of(&reference[i], &values[i], 1);
    const bool has_number = std::isfinite(reference[i]) || reference[i] == -kInfinity;
    error.compared += has_number;
    error.non_finite += !has_number && of.most == 0;
    error.max_abs = std::max(error.max_abs, of.most);
    squares += of.squares;
    // An all-zero reference gives no scale, so any distance is infinitely far.
    if (of.most > 0)
      error.max_rel = std::max(error.max_rel, of.disagreeing_non_finite > 0
                                                  ? kInfinity
                                                  : of.most / std::max(of.largest, floor));
  }
  error.rms = std::sqrt(squares / static_cast<double>(std::max<Index>(error.compared, 1)));
  return error;
}

bool Verdict::pass() const {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorVerdict& t) { return t.pass(); });
}

std::string Verdict::complaint() const {
  for (const TensorVerdict& t : tensors) {
    if (t.pass()) continue;
    const std::string_view name = name_of(t.tensor);
    if (t.worst.passes() && t.error.compared > 0)
      return fmt::format(
          "--verify: {} is off by {:.3g} (root mean square), tolerance {:.3g}; is an accumulator "
          "rounded at every hop?",
          name, t.error.rms, t.rms_tolerance);
    if (t.worst.passes())
      return fmt::format(
          "--verify: {}: nothing to compare, every value of the reference is NaN or infinite",
          name);
    return fmt::format("--verify: {} is off by {:.3g} in {}, tolerance {:.3g}", name, t.worst.error,
                       t.worst.place(), t.worst.tolerance);
  }
  return "";
}

std::vector<Index> sampled_queries(Index seqlen, Index rows, std::uint64_t seed) {
  if (rows >= seqlen) return {};
  // Floyd's algorithm: for each of the last `rows` positions j, draw a position up to j, and take j
  // itself if that position was drawn before.
  std::mt19937_64 random(seed);
  std::set<Index> drawn;
  for (Index j = seqlen - rows; j < seqlen; ++j) {
    const auto position = static_cast<Index>(random() % static_cast<std::uint64_t>(j + 1));
    drawn.insert(drawn.contains(position) ? j : position);
  }
  return {drawn.begin(), drawn.end()};
}

Reference::Reference(const Problem& config, const AttentionInputs& inputs, const Runner& runner,
                     const std::function<void(double)>& progress, std::vector<Index> queries)
    : shape_(config.shape), queries_(std::move(queries)) {
  const DType dtype = config.dtype;
  oracle_ = oracle_of(checked_problem(config), stored_inputs(config, inputs),
                      {kOracleRows, cores(), queries_, progress});
  // At first a row's tolerance is the error that rounding explains, of which one rank has a share.
  for (const Tensor tensor : output_tensors(true, true))
    if (const auto& reference = values_of(oracle_, tensor); !reference.empty()) {
      const RowBound& bound = values_of(oracle_.bounds, tensor);
      Limits& limits = limits_.emplace_back(Limits{tensor, {}});
      for (Index at = 0; at < std::ssize(bound.f32); ++at)
        limits.tolerances.push_back(rounding_of(tensor, tensor == Tensor::lse ? DType::f32 : dtype,
                                                bound, at, largest_of_row(tensor, at)));
    }
  std::vector<double> shares(limits_.size()), rms = shares;
  for (const bool reversed : {false, true}) {
    const Verdict one_rank = judge(one_rank_outputs(on_one_rank(config), inputs, runner, reversed));
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      const TensorVerdict& t = one_rank.tensors[i];
      limits_[i].one_rank_error = std::max(limits_[i].one_rank_error, t.error.max_abs);
      shares[i] = std::max(shares[i], t.worst.share());
      rms[i] = std::max(rms[i], t.error.rms);
    }
  }
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    Limits& limits = limits_[i];
    const RowBound& bound = values_of(oracle_.bounds, limits.tensor);
    double largest_unit = 0;
    for (Index at = 0; at < std::ssize(bound.f32); ++at) {
      const double unit = std::max(largest_of_row(limits.tensor, at), bound.terms[at]);
      const double slack =
          kSlack * unit + (dtype == DType::f32 ? 0 : kSlackOf16Bits * std::min(unit, 1.0));
      double& tolerance = limits.tolerances[at];
      // The nearest number but one is off by more than the smallest number.
      tolerance =
          std::max(std::min(2 * shares[i], 1.0) * tolerance + slack, 2 * smallest_of(dtype));
      largest_unit = std::max(largest_unit, unit);
    }
    limits.rms_tolerance =
        dtype == DType::f32 ? kInfinity : kMostRms * rms[i] + kSlack * largest_unit;
  }
}

// Return the largest |element| of a row of the oracle that is finite.
double Reference::largest_of_row(Tensor tensor, Index at) const {
  const Index width = width_of(shape_, tensor);
  const double* const row = &values_of(oracle_, tensor)[at * width];
  return RowDistance(row, row, width).largest;
}

// Return the rows that are compared.
std::vector<float> Reference::rows_of(const AttentionOutputs& outputs, Tensor tensor) const {
  const std::vector<float>& values = values_of(outputs, tensor);
  return is_key_side(tensor) || tensor == Tensor::dsink
             ? values
             : chosen_rows(values, shape_.queries(), queries_, width_of(shape_, tensor));
}

Verdict Reference::judge(const AttentionOutputs& outputs) const {
  const Index queries = queries_.empty() ? shape_.queries() : std::ssize(queries_);
  Verdict verdict{{}, queries, shape_.queries()};
  for (const Limits& limits : limits_) {
    const Tensor tensor = limits.tensor;
    const std::vector<double>& reference = values_of(oracle_, tensor);
    const std::vector<float> values = rows_of(outputs, tensor);
    TensorVerdict& t = verdict.tensors.emplace_back();
    t = {tensor, compare(reference, values), {}, limits.one_rank_error, limits.rms_tolerance};
    if (values.size() != reference.size()) continue;  // infinitely far
    const bool is_sampled = !is_key_side(tensor) && tensor != Tensor::dsink && !queries_.empty();
    const Index width = width_of(shape_, tensor),
                heads = is_key_side(tensor) ? shape_.num_heads_kv : shape_.num_heads,
                rows = is_sampled ? queries : seqlen_of(shape_, tensor);
    for (Index at = 0; at < std::ssize(limits.tolerances); ++at)
      t.worst.take_if_worse({at / rows / heads, at / rows % heads,
                             is_sampled ? queries_[at % rows] : at % rows,
                             RowDistance(&reference[at * width], &values[at * width], width).most,
                             limits.tolerances[at]});
  }
  return verdict;
}

Index reference_bytes(const Problem& config) {
  const AttentionShape& shape = config.shape;
  // Count in floating point, which can't overflow; a sum beyond 64 bits is far more than any
  // machine has. Each of the oracle's threads holds two blocks of scores in the backward pass, and
  // dK and dV of its current head.
  const auto [query, kv, rows] = sizes_of(shape);
  const double inputs = query * (config.backward ? 2 : 1) + 2 * kv;
  const double outputs = query * (config.backward ? 2 : 1) + rows + (config.backward ? 2 * kv : 0);
  const double block_scores = static_cast<double>(kOracleRows) * static_cast<double>(shape.seqlen);
  const double head_gradients =
      static_cast<double>(shape.seqlen) * static_cast<double>(shape.head_dim + shape.value_dim());
  const double scratch = static_cast<double>(cores()) *
                         (config.backward ? 2 * block_scores + head_gradients : block_scores);
  // Each row of an output has two bounds and a tolerance, and each row of an input two sizes.
  const double bounds = (config.backward ? 3 * 5 + 2 * 4 : 3 * 2 + 2 * 3) * rows;
  const double oracle = 8 * (inputs + outputs + bounds + scratch);
  const double comparison = (8 + 4) * outputs + 4 * inputs +
                            static_cast<double>(predicted_rank_bytes(on_one_rank(config), 0));
  return static_cast<Index>(std::min(std::max(oracle, comparison), 0x1p62));
}

std::string tolerance_source(DType dtype) {
  const bool is_f32 = dtype == DType::f32;
  return fmt::format(
      "tolerance of a row: R x 2 x the share of R that a single rank is off by, at most R, + {:g} "
      "x L{}, where R is the error that rounding to {} explains in the row, and L the row's "
      "largest |reference| or, if that is more, what the row is a sum of{}",
      kSlack, is_f32 ? "" : fmt::format(" + {:g} x min(1, L)", kSlackOf16Bits), name_of(dtype),
      is_f32 ? ""
             : fmt::format("; root mean square: {:g} x that of a single rank + {:g} x L", kMostRms,
                           kSlack));
}

namespace {

Fields tensor_fields(const TensorVerdict& t) {
  const Index non_finite = t.error.non_finite;
  return {
      {"", name_of(t.tensor), "error", 5},
      {"pass", t.pass()},
      {"max_abs", t.error.max_abs, "absolute", 13, digits_text},
      {"max_rel", t.error.max_rel, "relative", 13, digits_text},
      {"rms", t.error.rms, "rms", 13, digits_text},
      {"rms_tolerance", t.rms_tolerance},
      {"non_finite", non_finite},
      {"", t.worst.error, "worst row", 13, digits_text},
      {"tolerance", t.worst.tolerance, "tolerance", 13, digits_text},
      {"", t.worst.place(), "in row", 30},
      {"worst_row", worst_row_fields(t.worst)},
      {"one_rank_max_abs", t.one_rank_error},
      {"", t.pass() ? "  good" : "  WRONG", "", 0},
      {"",
       non_finite == 0 ? "" : fmt::format(", {} NaN or infinite in both, not compared", non_finite),
       "", 0}};
}

Fields verdict_fields(const Verdict& verdict) {
  Fields fields{
      {"pass", verdict.pass()}, {"query_rows", verdict.query_rows}, {"seqlen", verdict.seqlen}};
  for (const TensorVerdict& t : verdict.tensors)
    fields.emplace_back(name_of(t.tensor), tensor_fields(t));
  return fields;
}

}  // namespace

Report make_report(const Problem& config, const RingRun& run, std::optional<Verdict> verdict) {
  Report report{.config = config,
                .backend = run.recording.info.backend,
                .engine_notes = run.engine_notes,
                .summary = summarize(run.recording),
                .wall_s = run.wall_s,
                .largest_loss = largest_loss(run.recording),
                .verdict = std::move(verdict)};
  const Partition partition = config.partition_of_sequence();
  const bool apart = config.deals_queries_apart();
  std::vector<std::vector<double>> work;
  for (int r = 0; r < config.world_size; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const RankSummary& rank = report.summary.ranks[at];
    const std::vector<Index> predicted = predicted_pairs(config, r);
    work.emplace_back(predicted.begin(), predicted.end());
    const Index dropped = run.recording.dropped.empty() ? 0 : run.recording.dropped[at];
    report.dropped_events += dropped;
    report.peak_bytes = std::max(report.peak_bytes, run.peak_bytes[at]);
    report.ranks.push_back(
        {{"rank", r, "rank", 5},
         {"rows", partition.rows_of(r).size(), "rows", 10},
         {apart ? "queries" : "", config.query_rows(r), apart ? "queries" : "", 10},
         {"pairs", rank.pairs, "pairs", 15},
         {"predicted_pairs", std::accumulate(predicted.begin(), predicted.end(), Index{0})},
         {"compute_s", rank.compute_s, "busy", 12, seconds_text},
         {"compute_cpu_s", rank.compute_cpu_s},
         {"wait_s", rank.wait_s, "waiting", 12, seconds_text},
         {"exposed_s", rank.exposed_s},
         {"bytes_sent", rank.bytes_sent, "sent", 12, bytes_text},
         {"hops", rank.hops},
         {"peak_bytes", run.peak_bytes[at], "peak", 12, bytes_text},
         {"predicted_peak_bytes", run.predicted_bytes[at]},
         {"dropped_events", dropped},
         {"pairs_by_step", rank.pairs_by_step}});
  }
  report.predicted_balance_ceiling =
      balance_ceiling(work, travel_of(run.recording.info).shares_steps(config.world_size));
  return report;
}

namespace {

Fields summary_fields(const Report& report) {
  const RunSummary& s = report.summary;
  const PartitionSpec& partition = report.config.partition;
  const bool searched = partition.is_searched();
  return {line("imbalance", s.imbalance, "imbalance, all steps together",
               fmt::format("{:.3f} by pairs, {:.3f} by processor time", s.imbalance,
                           s.measured_imbalance)),
          line("balance_ceiling", s.balance_ceiling, "balance ceiling, step by step",
               fmt::format("{:.3f} predicted, {:.3f} by processor time",
                           report.predicted_balance_ceiling, s.measured_balance_ceiling)),
          {"predicted_balance_ceiling", report.predicted_balance_ceiling},
          line(searched ? "searched" : "", partition.found(), searched ? "searched partition" : "",
               partition.found() + ", the best of all deals"),
          line("exposed_s", s.exposed_s, "exposed communication, worst rank",
               seconds_text(s.exposed_s)),
          line("", 0, report.largest_loss.empty() ? "" : "largest loss", report.largest_loss),
          {"measured", Fields{{"imbalance", s.measured_imbalance},
                              {"balance_ceiling", s.measured_balance_ceiling}}}};
}

}  // namespace

std::string report_json(const Report& report) {
  const Problem& config = report.config;
  return json_line(
      way_fields(config) + summary_fields(report) +
      Fields{{"backend", report.backend},
             {report.engine_notes.empty() ? "" : "engine_notes", report.engine_notes},
             {config.scheme->course == Course::steps ? "kv_buffers" : "", config.used_kv_buffers()},
             {config.has_sinks() ? "sink_logits" : "", true},
             {config.softcap > 0 ? "softcap" : "", config.softcap},
             {"softmax_scale", config.scale()},
             {"vector_width", vector_width()},
             {"wall_s", report.wall_s},
             {"ranks", report.ranks},
             {config.speeds.empty() ? "" : "speeds", config.speeds},
             {report.verdict ? "verify" : "",
              report.verdict ? verdict_fields(*report.verdict) : Fields()}});
}

// ---
// The table for people.

namespace {

std::string header_line(const Report& report) {
  const Problem& config = report.config;
  return fmt::format(
      "{}\n{}, {}, {}, {}{}: {}\n\n", problem_text(config), reported(report.backend),
      count_text(config.world_size, "rank"), name_of(config.partition), config.scheme_name(),
      config.used_kv_buffers() > 2 ? fmt::format(", {} KV buffers", config.used_kv_buffers()) : "",
      seconds_text(report.wall_s));
}

std::string verdict_text(const Verdict& verdict, DType dtype, bool backward) {
  std::vector<Fields> tensors;
  for (const TensorVerdict& t : verdict.tensors) tensors.push_back(tensor_fields(t));
  std::string text = "\n" + table_text(tensors);
  if (verdict.is_sample())
    text += fmt::format(
        "compared: {} of {} query rows of each head ({:.2g} %){}\n", verdict.query_rows,
        verdict.seqlen,
        100.0 * static_cast<double>(verdict.query_rows) / static_cast<double>(verdict.seqlen),
        backward ? "; dk and dv are not compared, they take every query" : "");
  return text + "against naive attention in f64 on the same rounded inputs; " +
         tolerance_source(dtype) + "\n";
}

}  // namespace

std::string report_text(const Report& report) {
  std::string text = header_line(report) + table_text(report.ranks) + "\n" +
                     lines_text(34, summary_fields(report));
  if (report.backend == "cpu")
    text += shared_cores_text(report.config.world_size, "busy, waiting and exposed times include");
  if (report.dropped_events > 0)
    text += fmt::format("{} events found no room and are not in the recording\n",
                        report.dropped_events);
  text += report.engine_notes;
  if (report.verdict)
    text += verdict_text(*report.verdict, report.config.dtype, report.config.backward);
  return text;
}

}  // namespace ringscope
