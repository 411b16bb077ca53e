// What a report holds, and its JSON.
#include "app/report.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>
#include <utility>

#include "core/attention/vector.h"

namespace ringscope {
namespace {

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

// The object that is open, a key and a value at a time.
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
  // For what is written with the writer itself next.
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

Report make_report(const RingConfig& config, const RingRun& run, std::optional<Verdict> verdict) {
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
  const RingConfig& config = report.config;
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

}  // namespace ringscope
