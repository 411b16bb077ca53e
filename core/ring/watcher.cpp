#include "core/ring/watcher.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>

namespace ringscope {

Watcher::Watcher(std::vector<RankPulse*> pulses, double timeout_s, Engine& engine)
    : pulses_(std::move(pulses)), timeout_s_(timeout_s), engine_(engine), ended_(pulses_.size()) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw RunError(std::string("cannot start a thread: ") + error.what());
  }
}

Watcher::~Watcher() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  closing_.notify_all();
  thread_.join();
}

void Watcher::ended(int rank) {
  const std::lock_guard lock(mutex_);
  ended_[static_cast<std::size_t>(rank)] = true;
}

bool Watcher::has_failed() {
  try {
    engine_.throw_if_failed();
    return false;
  } catch (const RunError&) {
    return true;
  }
}

void Watcher::run() {
  using Seconds = std::chrono::duration<double>;
  const double period = std::clamp(timeout_s_ / 8, 0.001, 0.05);
  // The whole process may be stopped for a while, or come to no turn; only time in which the ranks
  // could do something counts, so no look is worth more than this.
  const double most = std::max(period, timeout_s_ / 4);
  double now = 0;
  StallJudge judge(static_cast<int>(pulses_.size()), timeout_s_, now);
  std::vector<bool> known_ended(pulses_.size());
  auto last_look = std::chrono::steady_clock::now();

  std::unique_lock lock(mutex_);
  while (!closing_.wait_for(lock, Seconds(period), [&] { return closed_; })) {
    const std::vector<bool> has_ended = ended_;
    lock.unlock();
    if (has_failed()) {
      for (RankPulse* pulse : pulses_) pulse->stop();
      return;
    }
    const auto look = std::chrono::steady_clock::now();
    now += std::min(Seconds(look - last_look).count(), most);
    last_look = look;
    for (std::size_t r = 0; r < pulses_.size(); ++r) {
      if (!has_ended[r]) {
        judge.heard(static_cast<int>(r), pulses_[r]->status(), now);
      } else if (!known_ended[r]) {
        known_ended[r] = true;
        judge.ended(static_cast<int>(r), now);
      }
    }
    if (const std::optional<RunError> verdict = judge.verdict(now)) engine_.fail(*verdict);
    lock.lock();
  }
}

}  // namespace ringscope
