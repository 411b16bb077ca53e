// The program's two ways to speak.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ringscope {

// On stdout. Throws RunError when it can't be written to (a full disk behind a redirection).
void print_out(std::string_view text);

// "ringscope: `message`" as one line on stderr, whatever bytes a file name brought into it.
void print_error(std::string_view message);

// ---
// A progress bar on stderr, for long work in front of people: drawn only on a terminal, a few times
// a second, and erased when the work is done.

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done` in [0, 1]. From any thread.
  void update(double done);
  // update, as what long-running functions take; empty when nothing is drawn. Must not outlive the
  // bar.
  std::function<void(double)> callback();

 private:
  std::string label_;
  bool drawn_on_terminal_;
  std::atomic<std::int64_t> next_draw_ns_;
};

}  // namespace ringscope
