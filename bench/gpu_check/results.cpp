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
void put_int(Writer& writer, const char* name, int value) {
  writer.Key(name);
  writer.Int(value);
}

void put(Writer& writer, const char* name, const std::vector<Measurement>& all) {
  writer.Key(name);
  writer.StartArray();
  for (const Measurement& m : all) {
    writer.StartObject();
    put(writer, "name", m.name);
    if (m.problem.empty()) {
      put(writer, "ms", m.ms);
      for (const auto& [figure, value] : m.figures) put(writer, figure.c_str(), value);
    } else {
      put(writer, "problem", m.problem);
    }
    writer.EndObject();
  }
  writer.EndArray();
}

}  // namespace

std::string name_of(PartStatus status) {
  switch (status) {
    case PartStatus::passed:
      return "passed";
    case PartStatus::failed:
      return "failed";
    case PartStatus::cut_off:
      return "cut off";
    case PartStatus::not_run:
      return "not run";
    case PartStatus::not_measured:
      return "not measured";
  }
  return "?";
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
  put_int(writer, "format", 1);
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
  writer.Key("parts");
  writer.StartArray();
  for (const Part& part : results.parts) {
    writer.StartObject();
    put(writer, "name", part.name);
    put(writer, "status", name_of(part.status));
    put(writer, "seconds", part.seconds);
    if (!part.detail.empty()) put(writer, "detail", part.detail);
    writer.EndObject();
  }
  writer.EndArray();
  writer.Key("kernels");
  writer.StartArray();
  for (const auto& [number, tests] : results.kernels) {
    writer.StartObject();
    put_int(writer, "number", number);
    put(writer, "pass", tests.pass());
    put_int(writer, "tests_passed", tests.passed);
    put_int(writer, "tests_failed", tests.failed);
    put_int(writer, "tests_skipped", tests.skipped);
    writer.EndObject();
  }
  writer.EndArray();
  writer.Key("figures");
  writer.StartArray();
  for (const Figure& figure : results.figures) {
    writer.StartObject();
    put(writer, "name", figure.name);
    put(writer, "value", figure.value);
    if (!figure.goal.empty()) put(writer, "goal", figure.goal);
    writer.EndObject();
  }
  writer.EndArray();
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
