#include "core/threads/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <tuple>
#include <utility>

namespace ringscope {

void RankPulse::at(Pass pass, int step) {
  pass_.store(static_cast<int>(pass), std::memory_order_relaxed);
  step_.store(step, std::memory_order_relaxed);
}

void RankPulse::waits_for(int rank) { waiting_for_.store(rank, std::memory_order_relaxed); }

void RankPulse::waits_on(Completion operation, int peer) {
  waits_for(operation == nullptr ? -1 : peer);
  const std::lock_guard lock(mutex_);
  operation_ = std::move(operation);
}

RankStatus RankPulse::status() const {
  if (works_outside_.load(std::memory_order_relaxed))
    looks_.fetch_add(1, std::memory_order_relaxed);
  RankStatus status{progress() + looks_.load(std::memory_order_relaxed),
                    static_cast<Pass>(pass_.load(std::memory_order_relaxed)),
                    step_.load(std::memory_order_relaxed),
                    waiting_for_.load(std::memory_order_relaxed)};
  Completion operation;
  {
    const std::lock_guard lock(mutex_);
    operation = operation_;
  }
  if (operation != nullptr) {
    const Awaited awaited = operation->awaited();
    if (awaited.rank >= 0) status.waiting_for = awaited.rank;
    if (awaited.step >= 0) status.step = awaited.step;
  }
  return status;
}

namespace {

// Return whether a rank waits for another: not so between waits, or if its own part is missing.
bool waits(int rank, const RankStatus& status) {
  return status.waiting_for >= 0 && status.waiting_for != rank;
}

}  // namespace

StallJudge::StallJudge(int world_size, double timeout_s, double now)
    : seats_(static_cast<std::size_t>(world_size)), timeout_s_(timeout_s), advanced_at_(now) {
  for (Seat& seat : seats_) seat.heard_at = now;
}

void StallJudge::heard(int rank, const RankStatus& status, double now) {
  Seat& seat = seats_[rank];
  if (status.progress > seat.status.progress) advanced_at_ = now;
  seat.status = status;
  seat.heard_at = now;
}

void StallJudge::ended(int rank, double now) {
  seats_[rank].has_ended = true;
  advanced_at_ = now;
}

bool StallJudge::is_awaited(int rank) const {
  for (std::size_t r = 0; r < seats_.size(); ++r)
    if (!seats_[r].has_ended && seats_[r].status.waiting_for == rank &&
        waits(static_cast<int>(r), seats_[r].status))
      return true;
  return false;
}

int StallJudge::culprit() const {
  // Order ranks by likelihood; the smallest is the most likely culprit.
  const auto order = [&](int rank) {
    const RankStatus& status = seats_[rank].status;
    const bool does_wait = waits(rank, status);
    return std::tuple(does_wait, !does_wait && !is_awaited(rank), status.pass, status.step);
  };
  int found = -1;
  for (int rank = 0; rank < static_cast<int>(seats_.size()); ++rank)
    if (!seats_[rank].has_ended && (found < 0 || order(rank) < order(found))) found = rank;
  return found;
}

// Return the waits that start at `rank`, such as "0 for 3 for 2", up to once around.
std::string StallJudge::circle_from(int rank) const {
  std::string text = std::to_string(rank);
  int at = rank;
  constexpr int kShown = 8;
  for (int shown = 1;; ++shown) {
    const RankStatus& status = seats_[at].status;
    if (!waits(at, status) || static_cast<std::size_t>(status.waiting_for) >= seats_.size())
      return text;
    at = status.waiting_for;
    text += shown < kShown || at == rank ? " for " + std::to_string(at) : " ...";
    if (shown >= kShown || at == rank) return text;
  }
}

std::optional<RunError> StallJudge::verdict(double now) const {
  const Seat* silent = nullptr;
  bool all_ended = true;
  for (const Seat& seat : seats_) {
    if (seat.has_ended) continue;
    all_ended = false;
    if (now - seat.heard_at >= timeout_s_ &&
        (silent == nullptr || seat.heard_at < silent->heard_at))
      silent = &seat;
  }
  const auto error = [&](int rank, const std::string& what) {
    const RankStatus& status = seats_[rank].status;
    const bool backward = status.step >= 0 && status.pass == Pass::backward;
    return RunError(what + (backward ? " (backward)" : ""), rank, status.step);
  };
  if (silent != nullptr)
    return error(static_cast<int>(silent - seats_.data()),
                 fmt::format("no sign of life for {:g} s", timeout_s_));
  if (all_ended || now - advanced_at_ < timeout_s_) return std::nullopt;
  const int rank = culprit();
  const std::string stalled = fmt::format("no progress for {:g} s", timeout_s_);
  if (waits(rank, seats_[rank].status))
    return error(rank, stalled + ": ranks wait for each other, " + circle_from(rank));
  return error(
      rank, is_awaited(rank) ? stalled + "; others wait for it, and it waits for nobody" : stalled);
}

Watchdog::Watchdog(std::vector<RankPulse*> pulses, double timeout_s, SharedFailure& ranks,
                   std::function<void(const RunError&)> stuck)
    : pulses_(std::move(pulses)),
      timeout_s_(timeout_s),
      ranks_(ranks),
      stuck_(std::move(stuck)),
      judge_(static_cast<int>(pulses_.size()), timeout_s, 0),
      ended_(pulses_.size()) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw RunError(std::string("cannot start a thread: ") + error.what());
  }
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  closing_.notify_all();
  thread_.join();
}

void Watchdog::ended(int rank) {
  const std::lock_guard lock(mutex_);
  ended_[rank] = true;
}

std::optional<RunError> Watchdog::failure() {
  try {
    ranks_.throw_if_failed();
    return std::nullopt;
  } catch (const RunError& error) {
    return error;
  }
}

void Watchdog::run() {
  using Seconds = std::chrono::duration<double>;
  const double period = std::clamp(timeout_s_ / 8, 0.001, 0.05);
  // The whole process may be stopped or not scheduled for a while. Only time in which the ranks
  // could work counts, so the time between two looks counts for at most this.
  const double most = std::max(period, timeout_s_ / 4);
  std::vector<bool> known_ended(pulses_.size());
  auto last_look = std::chrono::steady_clock::now();

  std::unique_lock lock(mutex_);
  while (!closing_.wait_for(lock, Seconds(period), [&] { return closed_; })) {
    if (failure()) break;
    const auto look = std::chrono::steady_clock::now();
    now_ += std::min(Seconds(look - last_look).count(), most);
    last_look = look;
    for (std::size_t r = 0; r < pulses_.size(); ++r) {
      if (!ended_[r]) {
        judge_.heard(static_cast<int>(r), pulses_[r]->status(), now_);
      } else if (!known_ended[r]) {
        known_ended[r] = true;
        judge_.ended(static_cast<int>(r), now_);
      }
    }
    if (const std::optional<RunError> verdict = judge_.verdict(now_)) {
      lock.unlock();
      ranks_.fail(*verdict);
      lock.lock();
    }
  }
  // Also when all ranks' threads have ended, because others may wait on their behalf.
  const std::optional<RunError> error = failure();
  if (!error) return;
  for (RankPulse* pulse : pulses_) pulse->stop();
  if (stuck_ && !closing_.wait_for(lock, Seconds(timeout_s_ + 5), [&] { return closed_; }))
    stuck_(*error);
}

}  // namespace ringscope
