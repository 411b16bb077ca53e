#include "bench/gpu_check/results.h"

#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
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

}  // namespace ringscope::gpu_check
