// The programs that compare measurements with what another program of this project says: their
// command line, the other one's JSON, and statistics.
#pragma once

#include <rapidjson/document.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace ringscope {

// Return stdout of a shell command. Throw RunError when it can't start or does not end with 0.
inline std::string output_of(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) throw RunError("cannot start: " + command);
  std::string text;
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, got);
  if (::pclose(pipe) != 0) throw RunError("failed: " + command);
  return text;
}

// Return a JSON object. Throw RunError for anything else.
inline rapidjson::Document parsed(const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.c_str(), json.size());
  if (document.HasParseError() || !document.IsObject()) throw RunError("not JSON: " + json);
  return document;
}

// Return a number of `object`. Throw RunError when there is no such number.
inline double number_in(const rapidjson::Value& object, const char* key) {
  if (!object.IsObject() || !object.HasMember(key) || !object[key].IsNumber())
    throw RunError(std::string("no number ") + key);
  return object[key].GetDouble();
}

inline double least_of(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}
inline double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline const CLI::Range kPositive(1, 1 << 30);  // CLI::PositiveNumber names an unreadable bound

// Parse the arguments and call run(). Return the exit status of main: 2 for bad arguments, 3 for
// other errors.
template <class Run>
int run_program(CLI::App& app, int argc, char** argv, const Run& run) try {
  app.parse(argc, argv);
  run();
  return 0;
} catch (const CLI::ParseError& error) {
  return app.exit(error) == 0 ? 0 : 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return dynamic_cast<const InputError*>(&error) != nullptr ? 2 : 3;
}

}  // namespace ringscope
