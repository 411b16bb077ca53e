#include "app/command_line/ending.h"

#include <new>

#include "cuda/base/build_commit.h"

namespace ringscope {

std::string version_text() {
  const std::string commit = cuda::build_commit();
  return commit == "unknown" ? RINGSCOPE_VERSION : RINGSCOPE_VERSION ", commit " + commit;
}

namespace {

// Return "rank 2, step 1: ", as far as known.
std::string where(const RunError& error) {
  if (error.rank() < 0) return "";
  const std::string rank = "rank " + std::to_string(error.rank());
  return error.step() < 0 ? rank + ": " : rank + ", step " + std::to_string(error.step()) + ": ";
}

}  // namespace

Ending ending_of(const std::exception& error) {
  if (dynamic_cast<const InputError*>(&error) != nullptr) return {kBadInput, error.what()};
  const RunError failure = as_run_error(error);
  return {kFailed, where(failure) + failure.what()};
}

RunError as_run_error(const std::exception& error) {
  if (const auto* failure = dynamic_cast<const RunError*>(&error)) return *failure;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return RunError("out of memory; give smaller sizes");
  return RunError(error.what());
}

}  // namespace ringscope
