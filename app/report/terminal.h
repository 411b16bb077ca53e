// The program's output to people: lines on stdout and stderr, and a progress bar.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ringscope {

// Print on stdout. Throw RunError when it can't be written to (a redirection to a full disk).
void print_out(std::string_view text);

// Print "ringscope: `message`" as one line on stderr, whatever bytes a file name contains.
void print_error(std::string_view message);

// ---
// A progress bar on stderr for long work. It is drawn only on a terminal, a few times a second, and
// erased when the work is done.

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
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
  bool drawn_on_terminal_;
  std::atomic<std::int64_t> next_draw_ns_;
};

}  // namespace ringscope
