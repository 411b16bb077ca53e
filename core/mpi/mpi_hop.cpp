#include "core/mpi/mpi_hop.h"

namespace ringscope {

void MpiWaits::fail(const RunError& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  happened_.notify_all();
  has_work_.notify_all();
}

void MpiWaits::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
}

Awaited MpiHop::awaited() const {
  std::unique_lock lock(waits_.mutex_);
  const std::vector<Completion> after = after_;
  lock.unlock();  // they may lock it themselves
  for (const Completion& earlier : after)
    if (earlier != nullptr && !earlier->done()) return earlier->awaited();
  lock.lock();
  int awaited = neighbours_.self;
  if (!sent_ && (received_ || exchange.send_first)) {
    awaited = neighbours_.send_rank;
  } else if (!received_ && !exchange.unposted_recv) {
    awaited = neighbours_.recv_rank;
  }
  return {awaited, exchange.step};
}

bool MpiHop::is_ready() {
  std::unique_lock lock(waits_.mutex_);
  while (!after_.empty()) {
    const Completion last = after_.back();
    lock.unlock();
    if (last != nullptr && !last->done()) return false;
    lock.lock();
    after_.pop_back();  // so that hops do not hold each other in one long chain
  }
  return true;
}

}  // namespace ringscope
