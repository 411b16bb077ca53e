// Texts of traces to load, and what the loader says of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "core/trace/chrome_trace.h"
#include "tests/core/trace/sample_recording.h"
#include "viz/model/trace/trace_loader.h"

namespace ringscope::viz {

inline std::string text_of(const Recording& recording) {
  std::ostringstream out;
  write_chrome_trace(out, recording);
  return out.str();
}

// A recording of nobody's dropped events.
inline Recording whole_recording(int world_size = 2, bool backward = true) {
  Recording recording = sample_recording(world_size, backward);
  recording.dropped.assign(static_cast<std::size_t>(world_size), 0);
  return recording;
}

// `text` with the first `from` replaced, which must be there.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? "" : text.replace(at, from.size(), to);
}

inline std::string with_all(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The InputError that `text` gives, "" when it gives none. It names the trace and is one line.
inline std::string complaint(const std::string& text) {
  try {
    parse_trace(text, "some.json");
    return "";
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find("some.json: "), 0u) << message;
    EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](unsigned char c) {
      return std::isprint(c) != 0;
    })) << message;
    EXPECT_LT(message.size(), 300u) << message;
    return message.substr(11);
  }
}

inline void expect_complaint(const std::string& text, const std::string& part) {
  const std::string found = complaint(text);
  EXPECT_NE(found.find(part), std::string::npos) << "'" << found << "' lacks '" << part << "'";
}

// `bad` put in place of the first value behind `key`, which the complaint must point at.
inline void expect_complaint_at(const std::string& text, const std::string& key,
                                const std::string& bad, const std::string& part) {
  const std::string from = "\"" + key + "\": ";
  const std::size_t at = text.find(from) + from.size();
  expect_complaint(with(text, from, from + bad + ", \"x\": "),
                   "byte " + std::to_string(at) + ": " + part);
}

}  // namespace ringscope::viz
