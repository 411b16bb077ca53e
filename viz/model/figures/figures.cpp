#include "viz/model/figures/figures.h"

#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>
#include <numeric>
#include <span>

#include "core/attention/online_softmax.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/cost/balance.h"
#include "core/cost/time.h"
#include "core/ring/ring.h"
#include "core/trace/summary.h"
#include "viz/model/analysis/balance.h"

namespace ringscope::viz {
namespace {

using Json = rapidjson::Writer<rapidjson::StringBuffer>;
using Arguments = std::vector<std::string>;

void write(Json& json, double value) {
  if (std::isfinite(value))
    json.Double(value);
  else
    json.Null();
}
void write(Json& json, Index value) { json.Int64(value); }
template <class T>
void write(Json& json, const std::vector<T>& values) {
  json.StartArray();
  for (const T& value : values) write(json, value);
  json.EndArray();
}
template <class T>
void write(Json& json, const char* name, const T& value) {
  json.Key(name);
  write(json, value);
}

template <class T>
T number_of(const char* what, const std::string& text, T least, T most) {
  const std::optional<T> value = parse_number<T>(text);
  if (value && *value >= least && *value <= most) return *value;
  throw InputError(
      fmt::format("{}: '{}' given; accepted: a number from {} to {}", what, text, least, most));
}

void work(const Arguments& arguments, Json& json) {
  Problem job;
  job.mask = MaskSpec::parse(arguments.at(0));
  job.partition = PartitionSpec(parse_partition(arguments.at(1)));
  job.world_size = number_of("ranks", arguments.at(2), 1, 32);
  job.shape.seqlen = number_of<Index>("length", arguments.at(3), 1, 1 << 24);
  const auto pairs = predicted_pairs({job.mask, job.partition_of_sequence(), job.partition});
  std::vector<double> totals;
  for (const auto& mine : pairs) totals.push_back(std::accumulate(mine.begin(), mine.end(), 0.0));
  write(json, "pairs", pairs);
  write(json, "imbalance", imbalance(totals));
  write(json, "ceiling", balance_of(job).ceiling());
}

void overlap(const Arguments& arguments, Json& json) {
  Problem job;
  job.shape.num_heads = job.shape.num_heads_kv = 1;
  job.shape.head_dim = 128;
  job.dtype = DType::bf16;
  const Rates rates{number_of("F", arguments.at(0), 1.0, 1e5) * 1e12, 0,
                    number_of("B", arguments.at(1), 0.1, 1e5) * 1e9, 0};
  std::vector<double> rows, computing, sending;
  for (int power = 0; power <= 56; ++power) {
    rows.push_back(64 * std::pow(2.0, power / 4.0));
    computing.push_back(compute_seconds(job, rates, Pass::forward, rows.back() * rows.back()));
    sending.push_back(hop_seconds(job, rates, Pass::forward, rows.back()));
  }
  write(json, "rows", rows);
  write(json, "computing", computing);
  write(json, "sending", sending);
  write(json, "crossing", threshold_rows(job, rates, Pass::forward, 1));
}

void merge_parts(const Arguments& arguments, Json& json) {
  std::vector<double> scores, values;
  for (const std::string_view text : ringscope::split(arguments.at(0), ',')) {
    scores.push_back(number_of("score", std::string(text), -1e6, 1e6));
    values.push_back(10.0 * static_cast<double>(scores.size()));
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
  const auto show = [&](const char* name, const Part& part) {
    json.Key(name);
    json.StartObject();
    write(json, "m", part.state.row_max);
    write(json, "l", part.state.row_sum);
    write(json, "out", part.out / part.state.row_sum);
    json.EndObject();
  };
  Part a = attend(0, cut);
  const Part b = attend(cut, scores.size());
  show("a", a);
  show("b", b);
  merge<double>(a.state, {&a.out, 1}, b.state, {&b.out, 1});
  show("merged", a);
  show("once", attend(0, scores.size()));
}

void ring_step(const Arguments& arguments, Json& json) {
  const int ranks = number_of("ranks", arguments.at(0), 1, 64);
  const bool backward = arguments.at(2) == "backward";
  const int step = number_of("step", arguments.at(1), 0, backward ? ranks : ranks - 1);
  std::vector<Index> owners;
  for (int rank = 0; rank < ranks; ++rank) owners.push_back(RingSchedule{rank, ranks}.owner(step));
  write(json, "owners", owners);
  write(json, "steps", Index{backward ? ranks + 1 : ranks});
}

void count(const Arguments& arguments, Json& json) {
  const auto ones = number_of<Index>("ones", arguments.at(0), 0, 1 << 20);
  bf16 narrow = bf16::from_float(0);
  float wide = 0;
  for (Index i = 0; i < ones; ++i) {
    narrow = bf16::from_float(narrow.to_float() + 1);
    wide += 1;
  }
  write(json, "bf16", static_cast<double>(narrow.to_float()));
  write(json, "f32", static_cast<double>(wide));
}

constexpr struct {
  const char* name;
  std::size_t arguments;
  void (*numbers)(const Arguments& arguments, Json& json);
} kFigures[] = {{"work", 4, work},
                {"overlap", 2, overlap},
                {"merge", 2, merge_parts},
                {"ring", 3, ring_step},
                {"count", 1, count}};

}  // namespace

std::string figure_numbers(const std::string& name, const std::vector<std::string>& arguments) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  json.StartObject();
  try {
    for (const auto& figure : kFigures)
      if (name == figure.name && arguments.size() == figure.arguments) {
        figure.numbers(arguments, json);
        json.EndObject();
        return buffer.GetString();
      }
    throw InputError(fmt::format("figure '{}' with {} arguments", name, arguments.size()));
  } catch (const InputError& error) {
    rapidjson::StringBuffer refused;
    Json refusal(refused);
    refusal.StartObject();
    refusal.Key("error");
    refusal.String(error.what());
    refusal.EndObject();
    return refused.GetString();
  }
}

}  // namespace ringscope::viz
