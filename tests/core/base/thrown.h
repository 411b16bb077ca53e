// What a call throws, as text, so that a test says in one line what it expects.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"

namespace ringscope {

// Return the message of the InputError that f throws, "" when it throws none.
template <class F>
std::string input_error_of(const F& f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// "rank 2, step 3: its process ended"
inline std::string text_of(const RunError& error) {
  return fmt::format("rank {}, step {}: {}", error.rank(), error.step(), error.what());
}

// Return the text of the RunError that f throws, "" when it throws none.
template <class F>
std::string run_error_of(const F& f) {
  try {
    f();
  } catch (const RunError& error) {
    return text_of(error);
  }
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

}  // namespace ringscope
