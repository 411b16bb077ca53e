// Builds the report and prints it as JSON or as a table.

#include "app/run/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "app/report/fields.h"
#include "core/attention/tile_product.h"
#include "core/base/text.h"
#include "core/explain/explain.h"

namespace ringscope {

namespace {

Fields rank_fields(const Report& report, std::size_t r) {
  const RankSummary& rank = report.summary.ranks[r];
  const Partition partition = report.config.partition_of_sequence();
  return {{"rank", r, "rank", 5},
          {"rows", partition.rows_of(static_cast<int>(r)).size(), "rows", 10},
          {"pairs", rank.pairs, "pairs", 15},
          {"predicted_pairs", report.predicted_pairs[r]},
          {"compute_s", rank.compute_s, "busy", 12, seconds_text},
          {"compute_cpu_s", rank.compute_cpu_s},
          {"wait_s", rank.wait_s, "waiting", 12, seconds_text},
          {"exposed_s", rank.exposed_s},
          {"bytes_sent", rank.bytes_sent, "sent", 12, bytes_text},
          {"hops", rank.hops},
          {"peak_bytes", report.peak_bytes[r], "peak", 12, bytes_text},
          {"predicted_peak_bytes", report.predicted_peak_bytes[r]},
          {"dropped_events", report.dropped_events[r]},
          {"pairs_by_step", rank.pairs_by_step}};
}

std::vector<Fields> all_rank_fields(const Report& report) {
  std::vector<Fields> ranks;
  for (std::size_t r = 0; r < report.summary.ranks.size(); ++r)
    ranks.push_back(rank_fields(report, r));
  return ranks;
}

Fields tensor_fields(const TensorVerdict& t) {
  const Index non_finite = t.error.non_finite;
  return {
      {"", t.name, "error", 5},
      {"pass", t.pass()},
      {"max_abs", t.error.max_abs, "absolute", 13, digits_text},
      {"max_rel", t.error.max_rel, "relative", 13, digits_text},
      {"rms", t.error.rms, "rms", 13, digits_text},
      {"rms_tolerance", t.rms_tolerance},
      {"non_finite", non_finite},
      {"tolerance", t.tolerance, "tolerance", 13, digits_text},
      {"one_rank_max_abs", t.one_rank_error},
      {"cap", t.cap},
      {"", t.pass() ? "  good" : "  WRONG", "", 0},
      {"",
       non_finite == 0 ? "" : fmt::format(", {} NaN or infinite in both, not compared", non_finite),
       "", 0}};
}

Fields verdict_fields(const Verdict& verdict) {
  Fields fields{
      {"pass", verdict.pass()}, {"query_rows", verdict.query_rows}, {"seqlen", verdict.seqlen}};
  for (const TensorVerdict& t : verdict.tensors) fields.emplace_back(t.name, tensor_fields(t));
  return fields;
}

}  // namespace

Report make_report(const Problem& config, const RingRun& run, std::optional<Verdict> verdict) {
  Report report;
  report.config = config;
  report.summary = summarize(run.recording);
  report.wall_s = run.wall_s;
  report.backend = run.recording.info.backend;
  report.engine_notes = run.engine_notes;
  report.peak_bytes = run.peak_bytes;
  report.predicted_peak_bytes = run.predicted_bytes;
  report.dropped_events.assign(run.recording.dropped.begin(), run.recording.dropped.end());
  report.dropped_events.resize(static_cast<std::size_t>(config.world_size), 0);
  std::vector<std::vector<double>> work;
  for (int rank = 0; rank < config.world_size; ++rank) {
    Index pairs = 0;
    work.emplace_back();
    for (const Index in_step : predicted_pairs(config, rank)) {
      pairs += in_step;
      work.back().push_back(static_cast<double>(in_step));
    }
    report.predicted_pairs.push_back(pairs);
  }
  report.predicted_balance_ceiling = balance_ceiling(work);
  report.largest_loss = largest_loss(run.recording);
  report.verdict = std::move(verdict);
  return report;
}

std::string report_json(const Report& report) {
  const Problem& config = report.config;
  const RunSummary& summary = report.summary;
  return json_line({
      {"backend", report.backend},
      {report.engine_notes.empty() ? "" : "engine_notes", report.engine_notes},
      {"world_size", config.world_size},
      {"partition", name_of(config.partition)},
      {"mask", config.mask.name()},
      {"scheme", config.scheme_name()},
      {config.scheme == Scheme::ring ? "kv_buffers" : "", config.used_kv_buffers()},
      {"dtype", name_of(config.dtype)},
      {"shape", shape_fields(config.shape)},
      {"softmax_scale", config.scale()},
      {"backward", config.backward},
      {"vector_width", kVectorWidth},
      {"wall_s", report.wall_s},
      {"ranks", all_rank_fields(report)},
      {"imbalance", summary.imbalance},
      {"balance_ceiling", summary.balance_ceiling},
      {"predicted_balance_ceiling", report.predicted_balance_ceiling},
      {"exposed_s", summary.exposed_s},
      {config.speeds.empty() ? "" : "speeds", config.speeds},
      {config.partition.bound() ? "searched" : "", bound_fields(config.partition.bound())},
      {"measured", Fields{{"imbalance", summary.measured_imbalance},
                          {"balance_ceiling", summary.measured_balance_ceiling}}},
      {report.verdict ? "verify" : "", report.verdict ? verdict_fields(*report.verdict) : Fields()},
  });
}

// ---
// The table for people.

namespace {

std::string header_line(const Report& report) {
  const Problem& config = report.config;
  return fmt::format(
      "{}\n{}, {}, {}, {}{}: {}\n\n", problem_text(config), report.backend,
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
  const RunSummary& summary = report.summary;
  std::string text = header_line(report) + table_text(all_rank_fields(report)) + "\n";
  text +=
      fmt::format("imbalance, all steps together     {:.3f} by pairs, {:.3f} by processor time\n",
                  summary.imbalance, summary.measured_imbalance);
  text +=
      fmt::format("balance ceiling, step by step     {:.3f} predicted, {:.3f} by processor time\n",
                  report.predicted_balance_ceiling, summary.measured_balance_ceiling);
  text += bound_text(report.config.partition.bound());
  text += fmt::format("exposed communication             {}\n", seconds_text(summary.exposed_s));
  if (!report.largest_loss.empty())
    text += fmt::format("largest loss                      {}\n", report.largest_loss);
  if (report.backend == "cpu")
    text += shared_cores_text(report.config.world_size, "busy, waiting and exposed times include");
  const Index dropped =
      std::accumulate(report.dropped_events.begin(), report.dropped_events.end(), Index{0});
  if (dropped > 0)
    text += fmt::format("{} events found no room and are not in the recording\n", dropped);
  text += report.engine_notes;
  if (report.verdict)
    text += verdict_text(*report.verdict, report.config.dtype, report.config.backward);
  return text;
}

}  // namespace ringscope
