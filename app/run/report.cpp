// Builds the report and prints it as JSON or as a table.

#include "app/run/report.h"

#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "app/report/machine.h"
#include "app/run/memory.h"
#include "core/attention/tile_product.h"

namespace ringscope {

namespace {

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

// A JSON object, open during this object's lifetime and written one key and value at a time.
class JsonObject {
 public:
  explicit JsonObject(Writer& writer) : writer_(writer) { writer_.StartObject(); }
  ~JsonObject() { writer_.EndObject(); }
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;

  void put(std::string_view key, Index value) { this->key(key).Int64(value); }
  void put(std::string_view key, int value) { this->key(key).Int(value); }
  void put(std::string_view key, double value) {
    if (std::isfinite(value)) {
      this->key(key).Double(value);
    } else {
      this->key(key).Null();
    }
  }
  void put(std::string_view key, bool value) { this->key(key).Bool(value); }
  void put(std::string_view key, std::string_view value) {
    this->key(key).String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }
  void put(std::string_view key, const std::vector<Index>& values) {
    this->key(key).StartArray();
    for (const Index value : values) writer_.Int64(value);
    writer_.EndArray();
  }
  // Write a key whose value the caller writes with the returned writer.
  Writer& key(std::string_view name) {
    writer_.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
    return writer_;
  }

 private:
  Writer& writer_;
};

void put_shape(Writer& writer, const AttentionShape& shape) {
  JsonObject object(writer);
  object.put("batch", shape.batch);
  object.put("num_heads", shape.num_heads);
  object.put("num_heads_kv", shape.num_heads_kv);
  object.put("seqlen", shape.seqlen);
  object.put("head_dim", shape.head_dim);
}

void put_rank(Writer& writer, const Report& report, std::size_t r) {
  const RankSummary& rank = report.summary.ranks[r];
  const int number = static_cast<int>(r);
  JsonObject object(writer);
  object.put("rank", number);
  object.put("rows", report.config.partition_of_sequence().rows_of(number).size());
  object.put("pairs", rank.pairs);
  object.put("predicted_pairs", report.predicted_pairs[r]);
  object.put("compute_s", rank.compute_s);
  object.put("compute_cpu_s", rank.compute_cpu_s);
  object.put("wait_s", rank.wait_s);
  object.put("exposed_s", rank.exposed_s);
  object.put("bytes_sent", rank.bytes_sent);
  object.put("hops", rank.hops);
  object.put("peak_bytes", report.peak_bytes[r]);
  object.put("predicted_peak_bytes", report.predicted_peak_bytes[r]);
  object.put("dropped_events", report.dropped_events[r]);
  object.put("pairs_by_step", rank.pairs_by_step);
}

void put_verdict(Writer& writer, const Verdict& verdict) {
  JsonObject object(writer);
  object.put("pass", verdict.pass());
  object.put("query_rows", verdict.query_rows);
  object.put("seqlen", verdict.seqlen);
  for (const TensorVerdict& t : verdict.tensors) {
    JsonObject tensor(object.key(t.name));
    tensor.put("pass", t.pass());
    tensor.put("max_abs", t.error.max_abs);
    tensor.put("max_rel", t.error.max_rel);
    tensor.put("non_finite", t.error.non_finite);
    tensor.put("tolerance", t.tolerance);
    tensor.put("one_rank_max_abs", t.one_rank_error);
    tensor.put("cap", t.cap);
  }
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
    for (int step = 0; step < config.world_size; ++step) {
      const Index in_step = predicted_pairs(config, rank, step);
      pairs += in_step;
      work.back().push_back(static_cast<double>(in_step));
    }
    report.predicted_pairs.push_back(pairs);
  }
  report.predicted_balance_ceiling = balance_ceiling(work);
  report.verdict = std::move(verdict);
  return report;
}

std::string report_json(const Report& report) {
  const Problem& config = report.config;
  const RunSummary& summary = report.summary;
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  {
    JsonObject object(writer);
    object.put("backend", std::string_view(report.backend));
    if (!report.engine_notes.empty())
      object.put("engine_notes", std::string_view(report.engine_notes));
    object.put("world_size", config.world_size);
    object.put("partition", name_of(config.partition));
    object.put("mask", std::string_view(config.mask.name()));
    object.put("scheme", name_of(config.scheme));
    if (config.scheme == Scheme::ring) object.put("kv_buffers", config.used_kv_buffers());
    object.put("dtype", name_of(config.dtype));
    put_shape(object.key("shape"), config.shape);
    object.put("softmax_scale", config.scale());
    object.put("backward", config.backward);
    object.put("vector_width", kVectorWidth);
    object.put("wall_s", report.wall_s);
    object.key("ranks").StartArray();
    for (std::size_t r = 0; r < summary.ranks.size(); ++r) put_rank(writer, report, r);
    writer.EndArray();
    object.put("imbalance", summary.imbalance);
    object.put("balance_ceiling", summary.balance_ceiling);
    object.put("predicted_balance_ceiling", report.predicted_balance_ceiling);
    object.put("exposed_s", summary.exposed_s);
    {
      JsonObject measured(object.key("measured"));
      measured.put("imbalance", summary.measured_imbalance);
      measured.put("balance_ceiling", summary.measured_balance_ceiling);
    }
    if (report.verdict) put_verdict(object.key("verify"), *report.verdict);
  }
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

// ---
// The table for people.

namespace {

std::string header_line(const Report& report) {
  const Problem& config = report.config;
  const AttentionShape& s = config.shape;
  return fmt::format(
      "{} tokens x {} batch, {} heads ({} kv), head_dim {}, {}, mask {}, {}\n"
      "{}, {} rank{}, {}, {}{}: {}\n\n",
      s.seqlen, s.batch, s.num_heads, s.num_heads_kv, s.head_dim, name_of(config.dtype),
      config.mask.name(), config.backward ? "forward and backward" : "forward", report.backend,
      config.world_size, config.world_size == 1 ? "" : "s", name_of(config.partition),
      name_of(config.scheme),
      config.used_kv_buffers() > 2 ? fmt::format(", {} KV buffers", config.used_kv_buffers()) : "",
      seconds_text(report.wall_s));
}

std::string rank_table(const Report& report) {
  std::string text = fmt::format("{:>5}{:>10}{:>15}{:>12}{:>12}{:>12}{:>12}\n", "rank", "rows",
                                 "pairs", "busy", "waiting", "sent", "peak");
  const Partition partition = report.config.partition_of_sequence();
  for (std::size_t r = 0; r < report.summary.ranks.size(); ++r) {
    const RankSummary& rank = report.summary.ranks[r];
    text += fmt::format("{:>5}{:>10}{:>15}{:>12}{:>12}{:>12}{:>12}\n", r,
                        partition.rows_of(static_cast<int>(r)).size(), rank.pairs,
                        seconds_text(rank.compute_s), seconds_text(rank.wait_s),
                        bytes_text(rank.bytes_sent), bytes_text(report.peak_bytes[r]));
  }
  return text;
}

std::string verdict_text(const Verdict& verdict, DType dtype, bool backward) {
  std::string text =
      fmt::format("\n{:>5}{:>13}{:>13}{:>13}\n", "error", "absolute", "relative", "tolerance");
  for (const TensorVerdict& t : verdict.tensors)
    text += fmt::format(
        "{:>5}{:>13.3g}{:>13.3g}{:>13.3g}  {}{}\n", t.name, t.error.max_abs, t.error.max_rel,
        t.tolerance, t.pass() ? "good" : "WRONG",
        t.error.non_finite == 0
            ? ""
            : fmt::format(", {} NaN or infinite in both, not compared", t.error.non_finite));
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

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string report_text(const Report& report) {
  const RunSummary& summary = report.summary;
  std::string text = header_line(report) + rank_table(report) + "\n";
  text +=
      fmt::format("imbalance (slowest rank / mean)   {:.3f} by pairs, {:.3f} by processor time\n",
                  summary.imbalance, summary.measured_imbalance);
  text +=
      fmt::format("balance ceiling (mean / slowest)  {:.3f} predicted, {:.3f} by processor time\n",
                  report.predicted_balance_ceiling, summary.measured_balance_ceiling);
  text += fmt::format("exposed communication             {}\n", seconds_text(summary.exposed_s));
  if (report.backend == "cpu" && report.config.world_size > cores())
    text += fmt::format(
        "{} ranks share {} core{}, so busy, waiting and exposed times include time without a "
        "core\n",
        report.config.world_size, cores(), cores() == 1 ? "" : "s");
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
