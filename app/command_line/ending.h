// The program's version, and the exit status and error line that it ends with.
#pragma once

#include <exception>
#include <string>

#include "core/base/error.h"

namespace ringscope {

// Return "0.1.0, commit 1a2b3c4d5e6f", or "0.1.0" for a build outside a git checkout.
std::string version_text();

// ---
// An error, as the program reports it: an exit status and one line.

inline constexpr int kWrongNumbers = 1, kBadInput = 2, kFailed = 3;

struct Ending {
  int status = kFailed;
  std::string line;  // "rank 2, step 1: ...", as far as known
};

// Return kBadInput for an InputError and kFailed for anything else.
Ending ending_of(const std::exception& error);
// Return `error` as a RunError. Its message lacks the rank and step, which the RunError holds.
RunError as_run_error(const std::exception& error);

}  // namespace ringscope
