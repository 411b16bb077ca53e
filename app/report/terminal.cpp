#include "app/report/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "core/trace/recorder.h"

namespace ringscope {

// Return git's hash at configure time, such as "1a2b3c4d5e6f", or "unknown" without git (build_commit.cmake).
std::string build_commit();

namespace {

std::atomic<std::FILE*> last_stream = nullptr;
std::atomic<bool> are_apart = false;

void turn_to(std::FILE* stream) {
  std::FILE* const before = last_stream.exchange(stream);
  if (are_apart && before != nullptr && before != stream)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

constexpr std::int64_t kDrawEveryNs = 100'000'000, kLineEveryNs = 30'000'000'000,
                       kRestAfterNs = 3'000'000'000;
constexpr int kCells = 40;

}  // namespace

void keep_streams_apart() { are_apart = true; }

void print_out(std::string_view text) {
  turn_to(stdout);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  throw RunError(std::string("stdout: writing failed: ") + std::strerror(errno));
}

void print_error(std::string_view message) {
  std::string line = "ringscope: ";
  for (const char c : message) line += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
  line += '\n';
  turn_to(stderr);
  std::fputs(line.c_str(), stderr);
}

std::string version_text() {
  const std::string commit = build_commit();
  return commit == "unknown" ? RINGSCOPE_VERSION : RINGSCOPE_VERSION ", commit " + commit;
}

RunError as_run_error(const std::exception& error) {
  if (const auto* failure = dynamic_cast<const RunError*>(&error)) return *failure;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return RunError("out of memory; give smaller sizes");
  return RunError(error.what());
}

int report_error(const std::exception& error) {
  if (dynamic_cast<const InputError*>(&error) != nullptr) {
    print_error(error.what());
    return kBadInput;
  }
  const RunError failure = as_run_error(error);
  std::string where;
  if (failure.rank() >= 0) {
    where = fmt::format("rank {}", failure.rank());
    if (failure.step() >= 0) where += fmt::format(", step {}", failure.step());
    where += ": ";
  }
  print_error(where + failure.what());
  return kFailed;
}

std::string rest_text(double seconds) {
  if (seconds < 90) return fmt::format("about {:.0f} s left", seconds);
  if (seconds < 90 * 60) return fmt::format("about {:.0f} min left", seconds / 60);
  return fmt::format("about {:.0f} h left", seconds / 3600);
}

// Draw the first bar only after a moment, so that short work shows none.
ProgressBar::ProgressBar(std::string label, bool in_lines)
    : label_(std::move(label)),
      drawn_on_terminal_(::isatty(STDERR_FILENO) == 1),
      in_lines_(in_lines && !drawn_on_terminal_),
      begin_ns_(monotonic_ns()),
      next_draw_ns_(begin_ns_ + (in_lines_ ? kLineEveryNs : kDrawEveryNs)) {}

ProgressBar::~ProgressBar() {
  if (drawn_on_terminal_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(double done) {
  if (!drawn_on_terminal_ && !in_lines_) return;
  std::int64_t due = next_draw_ns_.load();
  const std::int64_t now = monotonic_ns();
  if (now < due ||
      !next_draw_ns_.compare_exchange_strong(due, now + (in_lines_ ? kLineEveryNs : kDrawEveryNs)))
    return;
  const double share = std::clamp(done, 0.0, 1.0);
  std::string rest;
  if (now - begin_ns_ > kRestAfterNs && share > 0)
    rest = ", " + rest_text(1e-9 * static_cast<double>(now - begin_ns_) * (1 - share) / share);
  if (in_lines_) return print_error(fmt::format("{}: {:.0f} %{}", label_, 100 * share, rest));
  const int filled = static_cast<int>(share * kCells);
  // Write with one call, so that lines of two threads don't mix.
  std::fputs(fmt::format("\r{} [{:#<{}}{:.<{}}] {:3.0f} %{}\x1b[K", label_, "", filled, "",
                         kCells - filled, 100 * share, rest)
                 .c_str(),
             stderr);
}

std::function<void(double)> ProgressBar::callback() {
  if (!drawn_on_terminal_ && !in_lines_) return {};
  return [this](double done) { update(done); };
}

}  // namespace ringscope
