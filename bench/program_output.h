// Runs another program of this project and reads its JSON, for benchmarks that compare with it.
#pragma once

#include <rapidjson/document.h>

#include <cstdio>
#include <string>

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

}  // namespace ringscope
