// A progress bar on stderr, for long work in front of people: drawn only on a terminal, a few times
// a second, and erased when the work is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace ringscope {

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
