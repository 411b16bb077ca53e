// What the loader says of the text of a trace.
#pragma once

#include <unistd.h>

#include <fstream>
#include <string>

#include "core/tools/foreign/trace_files.h"
#include "tests/core/trace/trace_text.h"

namespace ringscope::viz {

// The InputError that `text` gives, "" when it gives none. It names the trace.
inline std::string complaint(const std::string& text) {
  const std::string message = complaint_of([&] { parse_trace(text, "some.json"); });
  EXPECT_TRUE(message.empty() || message.starts_with("some.json: ")) << message;
  return message.empty() ? "" : message.substr(11);
}

inline void expect_complaint(const std::string& text, const std::string& part) {
  expect_part(complaint(text), part);
}

class TraceFile : public testing::Test {
 protected:
  static std::string write(const std::string& name, const std::string& text) {
    const std::string path =
        testing::TempDir() + "trace_loader_" + std::to_string(::getpid()) + "_" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
};

}  // namespace ringscope::viz
