#include "bench/gpu_check/parts.h"

#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace ringscope::gpu_check {
namespace {

using Writer = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

void put(Writer& writer, const char* name, const std::string& value) {
  writer.Key(name);
  writer.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
}
void put(Writer& writer, const char* name, double value) {
  writer.Key(name);
  // Five digits are more than a measurement has.
  if (std::isfinite(value)) {
    writer.Double(std::stod(fmt::format("{:.5g}", value)));
  } else {
    writer.Null();
  }
}
void put(Writer& writer, const char* name, bool value) {
  writer.Key(name);
  writer.Bool(value);
}
void put(Writer& writer, const char* name, int value) {
  writer.Key(name);
  writer.Int(value);
}

// Put an array of objects; members(one) puts those of an element.
template <class All, class Members>
void put_objects(Writer& writer, const char* name, const All& all, const Members& members) {
  writer.Key(name);
  writer.StartArray();
  for (const auto& one : all) {
    writer.StartObject();
    members(one);
    writer.EndObject();
  }
  writer.EndArray();
}

void put(Writer& writer, const char* name, const std::vector<Measurement>& all) {
  put_objects(writer, name, all, [&](const Measurement& m) {
    put(writer, "name", m.name);
    if (!m.problem.empty()) return put(writer, "problem", m.problem);
    put(writer, "ms", m.ms);
    for (const auto& [figure, value] : m.figures) put(writer, figure.c_str(), value);
  });
}

}  // namespace

std::string name_of(PartStatus status) {
  constexpr const char* kNames[] = {"passed", "failed", "cut off", "not run", "not measured"};
  return kNames[static_cast<int>(status)];
}

bool Results::passed() const {
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const Part& part) {
    return part.is_check ? part.status == PartStatus::passed : part.status != PartStatus::failed;
  });
}

std::string to_json(const Results& results) {
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  writer.SetIndent(' ', 1);
  writer.StartObject();
  put(writer, "format", 1);
  put(writer, "commit", results.commit);
  put(writer, "date", results.date);
  put(writer, "time_utc", results.time_utc);
  put(writer, "complete", results.complete);
  put(writer, "passed", results.passed());
  writer.Key("device");
  rapidjson::Document device;
  device.Parse(results.device_json.c_str());
  if (device.HasParseError()) device.SetNull();
  device.Accept(writer);
  put_objects(writer, "parts", results.parts, [&](const Part& part) {
    put(writer, "name", part.name);
    put(writer, "status", name_of(part.status));
    put(writer, "seconds", part.seconds);
    if (!part.detail.empty()) put(writer, "detail", part.detail);
  });
  put_objects(writer, "kernels", results.kernels, [&](const auto& kernel) {
    const auto& [number, tests] = kernel;
    put(writer, "number", number);
    put(writer, "pass", tests.pass());
    put(writer, "tests_passed", tests.passed);
    put(writer, "tests_failed", tests.failed);
    put(writer, "tests_skipped", tests.skipped);
  });
  put_objects(writer, "figures", results.figures, [&](const Figure& figure) {
    put(writer, "name", figure.name);
    put(writer, "value", figure.value);
    if (!figure.goal.empty()) put(writer, "goal", figure.goal);
  });
  put(writer, "benchmarks", results.ours);
  put(writer, "library", results.library);
  writer.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

void write_results(const Results& results, const std::string& path) {
  const std::string beside = path + ".new";
  std::ofstream file(beside);
  file << to_json(results);
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0)
    throw std::runtime_error("can't write " + path);
}

std::string to_text(const Results& results) {
  std::string text;
  for (const Part& part : results.parts) {
    text += fmt::format("{:<22} {:<13} {:6.1f} s", part.name, name_of(part.status), part.seconds);
    if (!part.detail.empty()) text += "  " + part.detail.substr(0, part.detail.find('\n'));
    text += '\n';
  }
  for (const auto& [number, tests] : results.kernels)
    text += fmt::format("kernel {:02}              {:<13} {} tests, {} failed, {} skipped\n",
                        number, tests.pass() ? "passed" : (tests.failed > 0 ? "failed" : "not run"),
                        tests.passed + tests.failed, tests.failed, tests.skipped);
  for (const Figure& figure : results.figures)
    text += fmt::format("{:<62} {:9.4g}  {}\n", figure.name, figure.value,
                        figure.goal.empty() ? "" : "goal " + figure.goal);
  return text;
}

namespace {

using Json = rapidjson::Value;

// Return null when it is not there.
const Json* member(const Json& object, const char* name) {
  if (!object.IsObject()) return nullptr;
  const auto found = object.FindMember(name);
  return found == object.MemberEnd() ? nullptr : &found->value;
}

std::string string_in(const Json& object, const char* name) {
  const Json* value = member(object, name);
  return value != nullptr && value->IsString() ? value->GetString() : "";
}

// Return the elements of an array, or none when there is no such array.
std::vector<const Json*> elements(const Json& object, const char* name) {
  std::vector<const Json*> all;
  const Json* array = member(object, name);
  if (array != nullptr && array->IsArray())
    for (const Json& element : array->GetArray()) all.push_back(&element);
  return all;
}

double milliseconds_per(const std::string& unit) {
  if (unit == "ns") return 1e-6;
  if (unit == "us") return 1e-3;
  return unit == "s" ? 1e3 : 1.0;
}

}  // namespace

std::vector<std::string> listed_tests(const std::string& text) {
  std::vector<std::string> tests;
  std::istringstream lines(text);
  std::string suite;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find_first_of(" #", 2));
    if (line.starts_with("  ")) {
      if (!suite.empty()) tests.push_back(suite + line.substr(2, name.size() - 2));
    } else {
      // Other lines may come before the list.
      suite = name.ends_with('.') ? name : "";
    }
  }
  return tests;
}

TestReport read_tests(const std::string& json) {
  TestReport report;
  rapidjson::Document document;
  document.Parse(json.c_str());
  if (document.HasParseError() || member(document, "testsuites") == nullptr) return report;
  report.readable = true;
  for (const Json* suite : elements(document, "testsuites"))
    for (const Json* test : elements(*suite, "testsuite")) {
      const std::string result = string_in(*test, "result");
      const bool failed = !elements(*test, "failures").empty();
      const bool skipped = !failed && result == "SKIPPED";
      if (!failed && !skipped && result != "COMPLETED") continue;  // switched off, or filtered out
      const TestCounts one{!failed && !skipped, failed, skipped};
      report.counts += one;
      if (const std::string kernel = string_in(*test, "kernel"); !kernel.empty())
        report.kernels[std::atoi(kernel.c_str())] += one;
      if (failed)
        report.failures.push_back(string_in(*test, "classname") + "." + string_in(*test, "name"));
    }
  return report;
}

std::vector<Measurement> read_benchmarks(std::string json) {
  rapidjson::Document document;
  document.Parse(json.c_str());
  if (document.HasParseError()) {
    // The end is missing, so keep the complete benchmarks.
    const std::size_t end = json.rfind("\n    }");
    if (end == std::string::npos) throw std::runtime_error("no benchmark came to its end");
    json = json.substr(0, end) + "\n    }\n  ]\n}\n";
    document.Parse(json.c_str());
    if (document.HasParseError()) throw std::runtime_error("the benchmarks' report is no JSON");
  }
  static const std::set<std::string> kNotFigures = {"family_index",  "per_family_instance_index",
                                                    "repetitions",   "repetition_index",
                                                    "threads",       "iterations",
                                                    "real_time",     "cpu_time",
                                                    "error_occurred"};
  std::vector<Measurement> all;
  for (const Json* benchmark : elements(document, "benchmarks")) {
    Measurement m;
    m.name = string_in(*benchmark, "name");
    // Google Benchmark adds its own suffixes.
    m.name = m.name.substr(0, m.name.find("/iterations:"));
    m.problem = string_in(*benchmark, "error_message");
    if (const Json* time = member(*benchmark, "real_time"); time != nullptr && time->IsNumber())
      m.ms = time->GetDouble() * milliseconds_per(string_in(*benchmark, "time_unit"));
    for (const auto& [name, value] : benchmark->GetObject())
      if (value.IsNumber() && !kNotFigures.contains(name.GetString()))
        m.figures[name.GetString()] = value.GetDouble();
    all.push_back(m);
  }
  return all;
}

LibraryReport read_library(const std::string& json) {
  LibraryReport report;
  rapidjson::Document document;
  document.Parse(json.c_str());
  if (document.HasParseError() || !document.IsObject()) {
    report.why_not = "it wrote no results";
    return report;
  }
  report.why_not = string_in(document, "not_measured");
  report.versions = "PyTorch " + string_in(document, "torch");
  if (const Json* cudnn = member(document, "cudnn"); cudnn != nullptr && cudnn->IsInt())
    report.versions += ", cuDNN " + std::to_string(cudnn->GetInt());
  for (const Json* one : elements(document, "measurements")) {
    Measurement m;
    m.name = string_in(*one, "name");
    m.problem = string_in(*one, "problem");
    if (!one->IsObject()) continue;
    for (const auto& [name, value] : one->GetObject())
      if (value.IsNumber()) m.figures[name.GetString()] = value.GetDouble();
    m.ms = m.figures["ms"];
    m.figures.erase("ms");
    report.measurements.push_back(std::move(m));
  }
  return report;
}

RingReport read_ring(const std::string& json) {
  RingReport report;
  rapidjson::Document document;
  document.Parse(json.c_str());
  if (document.HasParseError() || !document.IsObject()) return report;
  report.readable = true;
  if (const Json* verify = member(document, "verify"))
    if (const Json* pass = member(*verify, "pass")) report.verified = pass->IsTrue();
  for (const Json* rank : elements(document, "ranks")) {
    report.pairs.emplace_back();
    for (const Json* pairs : elements(*rank, "pairs_by_step"))
      report.pairs.back().push_back(pairs->IsInt64() ? pairs->GetInt64() : -1);
  }
  return report;
}

// ---
// Computes the figures that count from all measurements. Each is a ratio of two measurements of one
// run, or TFLOP/s of the fastest tile.

namespace {

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream text(name);
  for (std::string word; std::getline(text, word, '/');) words.push_back(word);
  return words;
}

double figure_in(const Measurement& m, const std::string& name) {
  const auto found = m.figures.find(name);
  return m.problem.empty() && found != m.figures.end() ? found->second : 0;
}

bool is_backward(const std::string& kernel) { return kernel >= "08"; }

// The fastest tile of each kernel on a shape such as "bf16/d128/8192/causal", or, of `ideas`, of each
// rung of single ideas.
struct Fastest {
  double tflops = 0;
  std::string tile;
};
std::map<std::string, Fastest> fastest_of_kernels(const std::vector<Measurement>& ours,
                                                  const std::string& shape, bool ideas = false) {
  std::map<std::string, Fastest> kernels;
  for (const Measurement& m : ours) {
    const std::vector<std::string> words = split(m.name);
    if (words.size() != 7 ||
        !(ideas ? words[0] == "idea" : words[0] == "main" || words[0] == "more"))
      continue;
    if (fmt::format("{}/{}/{}/{}", words[2], words[3], words[4], words[5]) != shape) continue;
    Fastest& best = kernels[words[1]];
    if (const double tflops = figure_in(m, "TFLOPs"); tflops > best.tflops)
      best = {tflops, words[6]};
  }
  return kernels;
}

double library_tflops(const std::vector<Measurement>& library, const std::string& name) {
  for (const Measurement& m : library)
    if (m.name == name) return figure_in(m, "TFLOPs");
  return 0;
}

// Compare the best kernel of a pass on a shape with the library's.
void compare(const std::vector<Measurement>& ours, const std::vector<Measurement>& library,
             bool backward, const std::string& shape, const std::string& goal,
             std::vector<Figure>& figures) {
  std::string best;
  Fastest fastest;
  for (const auto& [kernel, its] : fastest_of_kernels(ours, shape))
    if (is_backward(kernel) == backward && its.tflops > fastest.tflops) {
      best = kernel;
      fastest = its;
    }
  if (fastest.tflops <= 0) return;
  const std::string pass = backward ? "backward" : "forward";
  const std::string what = pass + " " + shape;
  figures.push_back(
      {fmt::format("{}: TFLOP/s of {} {}", what, best, fastest.tile), fastest.tflops, ""});
  for (const char* const name : {"cudnn", "flash"})
    if (const double tflops = library_tflops(library, fmt::format("{}/{}/{}", name, pass, shape));
        tflops > 0)
      figures.push_back({fmt::format("{}: over {}", what, name), fastest.tflops / tflops,
                         std::string(name) == "cudnn" ? goal : ""});
  if (const double tflops = library_tflops(library, "matmul/bf16/8192"); tflops > 0)
    figures.push_back({what + ": over the matrix product", fastest.tflops / tflops, ""});
}

// Add one figure per kernel: the smallest cost among its tiles.
void smallest_carry_cost(const std::vector<Measurement>& ours, std::vector<Figure>& figures) {
  std::map<std::string, double> costs;
  for (const Measurement& m : ours) {
    const std::vector<std::string> words = split(m.name);
    if (words.size() != 7 || words[0] != "carried_state" || !m.problem.empty() ||
        !m.figures.contains("carry_cost"))
      continue;
    const std::string what =
        fmt::format("carried state at {} rows {}, {}", words[4], words[5], words[1]);
    const double cost = m.figures.at("carry_cost");
    const auto [at, is_new] = costs.emplace(what, cost);
    if (!is_new) at->second = std::min(at->second, cost);
  }
  for (const auto& [what, cost] : costs)
    figures.push_back(
        {what, cost, what.find("at 16384 rows") != std::string::npos ? "<= 0.04" : ""});
}

}  // namespace

std::vector<Figure> figures_of(const std::vector<Measurement>& ours,
                               const std::vector<Measurement>& library) {
  std::vector<Figure> figures;
  for (const bool backward : {false, true})
    for (const int rows : {4096, 8192, 16384})
      for (const char* const mask : {"full", "causal", "full-mha", "causal-mha"})
        compare(ours, library, backward, fmt::format("bf16/d128/{}/{}", rows, mask),
                rows == 4096 ? "" : (backward ? ">= 0.9" : ">= 1.0"), figures);
  constexpr std::pair<const char*, bool> kLadders[] = {
      {"f32/d128/4096/full", false},      {"bf16/d128/8192/full", false},
      {"bf16/d128/8192/full", true},      {"bf16/d128/8192/causal", true},
      {"bf16/d128/16384/full-mha", true}, {"bf16/d128/16384/causal-mha", true}};
  for (const auto& [shape, ideas] : kLadders)
    for (const auto& [kernel, its] : fastest_of_kernels(ours, shape, ideas))
      if (its.tflops > 0)
        figures.push_back({fmt::format("{}, {}: TFLOP/s of {} {}", ideas ? "ideas" : "ladder",
                                       shape, kernel, its.tile),
                           its.tflops, ""});
  smallest_carry_cost(ours, figures);
  for (const Measurement& m : ours) {
    const std::vector<std::string> words = split(m.name);
    if (words.size() != 2 || words[0] != "ring_balance" || !m.problem.empty()) continue;
    figures.push_back({"8 ranks, causal: contiguous / zigzag, " + words[1],
                       figure_in(m, "contiguous_over_zigzag"), ">= 1.8"});
    if (const double ceiling = figure_in(m, "zigzag_ceiling"); ceiling > 0)
      figures.push_back({"8 ranks, causal: zigzag's share of its ceiling, " + words[1],
                         figure_in(m, "zigzag_balance") / ceiling, ">= 0.95"});
  }
  return figures;
}

}  // namespace ringscope::gpu_check
