#include "bench/gpu_check/readers.h"

#include <rapidjson/document.h>

#include <cstdlib>
#include <set>
#include <sstream>
#include <stdexcept>

namespace ringscope::gpu_check {
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

}  // namespace ringscope::gpu_check
