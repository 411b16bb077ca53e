// Texts of recordings, changed in one place, and what a reader says of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/trace/chrome_trace.h"
#include "tests/core/trace/sample_recording.h"

namespace ringscope {

inline std::string trace_text_of(const Recording& recording) {
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

// The InputError that f() throws, "" when it throws none. It is one short line.
template <class F>
std::string complaint_of(F&& f) {
  try {
    f();
    return "";
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](unsigned char c) {
      return std::isprint(c) != 0;
    })) << message;
    EXPECT_LT(message.size(), 300u) << message;
    return message;
  }
}

inline void expect_part(const std::string& complaint, const std::string& part) {
  EXPECT_NE(complaint.find(part), std::string::npos)
      << "'" << complaint << "' lacks '" << part << "'";
}

}  // namespace ringscope
