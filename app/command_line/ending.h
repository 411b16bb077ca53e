// Which Ringscope this is.
#pragma once

#include <exception>
#include <string>

#include "core/base/error.h"

namespace ringscope {

// "0.1.0, commit 1a2b3c4d5e6f", or "0.1.0" when it was not built from a git checkout.
std::string version_text();

// ---
// What went wrong, as the program says it: an exit status and one line.

inline constexpr int kWrongNumbers = 1, kBadInput = 2, kFailed = 3;

struct Ending {
  int status = kFailed;
  std::string line;  // "rank 2, step 1: ...", as far as known
};

// InputError: kBadInput; anything else: kFailed.
Ending ending_of(const std::exception& error);
// The same without its place in words, for whoever passes it on.
RunError as_run_error(const std::exception& error);

}  // namespace ringscope
