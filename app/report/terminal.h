// The program's output to people: lines on stdout and stderr, how it ends, and a progress bar.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace ringscope {

// Print on stdout. Throw RunError when it can't be written to (a redirection to a full disk).
void print_out(std::string_view text);

// Print "ringscope: `message`" as one line on stderr, whatever bytes a file name contains.
void print_error(std::string_view message);

// From now on, pause between what is printed on stdout and what is printed on stderr. Open MPI 5 merges
// what it reads of both within one moment, and writes all of it to the stream of the last part.
void keep_streams_apart();

// Return "0.1.0, commit 1a2b3c4d5e6f", or "0.1.0" for a build outside a git checkout.
std::string version_text();

// ---
// An error, as the program reports it: an exit status and one line.

inline constexpr int kWrongNumbers = 1, kBadInput = 2, kFailed = 3;

// Return `error` as a RunError. Its message lacks the rank and step, which the RunError holds.
RunError as_run_error(const std::exception& error);
// Print the line "ringscope: rank 2, step 1: ...", as far as known. Return the exit status: kBadInput
// for an InputError, kFailed for anything else.
int report_error(const std::exception& error);

// ---
// A progress bar on stderr for long work. It is drawn only on a terminal, and erased when the work is done.
// After some seconds it says how long the rest will take; elsewhere a line says so, if lines are wanted.

// Return "about 12 s left", or minutes or hours.
std::string rest_text(double seconds);

class ProgressBar {
 public:
  explicit ProgressBar(std::string label, bool in_lines = false);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draw `done`, in [0, 1]. Any thread may call this.
  void update(double done);
  // Return update() as a function for long-running work, or an empty function when nothing is
  // drawn. It must not outlive the bar.
  std::function<void(double)> callback();

 private:
  std::string label_;
  bool drawn_on_terminal_, in_lines_;
  std::int64_t begin_ns_;
  std::atomic<std::int64_t> next_draw_ns_;
};

}  // namespace ringscope
