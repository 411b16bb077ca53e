// What a program of ours prints as JSON, for benchmarks that compare with it.
#pragma once

#include <rapidjson/document.h>

#include <cstdio>
#include <string>

#include "core/base/error.h"

namespace ringscope {

// stdout of a shell command. Throws RunError when it can't be started or does not end with 0.
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

// An object. Throws RunError for anything else.
inline rapidjson::Document parsed(const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.c_str(), json.size());
  if (document.HasParseError() || !document.IsObject()) throw RunError("not JSON: " + json);
  return document;
}

// Throws RunError when there is no such number in `object`.
inline double number_in(const rapidjson::Value& object, const char* key) {
  if (!object.IsObject() || !object.HasMember(key) || !object[key].IsNumber())
    throw RunError(std::string("no number ") + key);
  return object[key].GetDouble();
}

}  // namespace ringscope
