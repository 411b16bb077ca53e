#include "app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/trace/recorder.h"

namespace ringscope {
namespace {

constexpr std::int64_t kDrawEveryNs = 100'000'000;
constexpr int kCells = 40;

}  // namespace

// The first bar is drawn only after a moment, so that short work shows none.
ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      drawn_on_terminal_(::isatty(STDERR_FILENO) == 1),
      next_draw_ns_(monotonic_ns() + kDrawEveryNs) {}

ProgressBar::~ProgressBar() {
  if (drawn_on_terminal_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(double done) {
  std::int64_t due = next_draw_ns_.load();
  const std::int64_t now = monotonic_ns();
  if (now < due || !next_draw_ns_.compare_exchange_strong(due, now + kDrawEveryNs)) return;
  const double share = std::clamp(done, 0.0, 1.0);
  const int filled = static_cast<int>(share * kCells);
  // One call, so that lines of two threads don't mix.
  std::fputs(fmt::format("\r{} [{:#<{}}{:.<{}}] {:3.0f} %\x1b[K", label_, "", filled, "",
                         kCells - filled, 100 * share)
                 .c_str(),
             stderr);
}

std::function<void(double)> ProgressBar::callback() {
  if (!drawn_on_terminal_) return {};
  return [this](double done) { update(done); };
}

}  // namespace ringscope
