#include "core/ring/thread_communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <system_error>

#include "core/trace/recorder.h"

namespace ringscope {

// One hop of one rank. The ring's mutex guards its state.
class ThreadHop : public PendingOperation {
 public:
  ThreadHop(ThreadRing& ring, int rank, const Exchange& exchange,
            std::initializer_list<Completion> after)
      : ring_(ring),
        rank_(rank),
        exchange_(exchange),
        after_(after),
        sent_(!exchange.sends()),
        received_(!exchange.receives()) {}

  bool done() const override {
    const std::lock_guard lock(ring_.mutex_);
    return is_done();
  }
  void wait() override {
    std::unique_lock lock(ring_.mutex_);
    ring_.seats_[rank_].changed.wait(lock, [&] { return is_done() || ring_.failure_; });
    if (!is_done()) throw *ring_.failure_;
  }
  TransferTimes times() const override {
    const std::lock_guard lock(ring_.mutex_);
    return times_;
  }
  TransferTimes times_so_far() const override { return times(); }
  Awaited awaited() const override {
    std::unique_lock lock(ring_.mutex_);
    if (!ready_) {
      std::vector<Completion> before = after_;
      before.push_back(ring_.seats_[rank_].ways[static_cast<std::size_t>(exchange_.way)].taken);
      lock.unlock();
      for (const Completion& earlier : before)
        if (earlier != nullptr && earlier.get() != this && !earlier->done())
          return earlier->awaited();
      lock.lock();  // it is its turn, unless the run has failed before that
    }
    const int n = ring_.world_size();
    if (!received_) return {exchange_.sender(rank_, n), exchange_.step};
    return {sent_ ? rank_ : exchange_.receiver(rank_, n), exchange_.step};
  }

 private:
  friend class ThreadCommunicator;
  friend class ThreadRing;

  bool is_done() const { return sent_ && received_; }

  ThreadRing& ring_;
  int rank_;
  Exchange exchange_;
  std::vector<Completion> after_;
  bool ready_ = false;  // all of after_ has happened: the sent block is there, the buffer free
  bool sent_, received_;
  TransferTimes times_;
};

ThreadRing::ThreadRing(int world_size) : seats_(static_cast<std::size_t>(world_size)) {}

void ThreadRing::fail(const RunError& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  for (Seat& seat : seats_) seat.changed.notify_all();
}

void ThreadRing::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
}

ThreadCommunicator::ThreadCommunicator(ThreadRing& ring, int rank) : ring_(ring), rank_(rank) {
  if (ring.world_size() > 1) start_engine(Way::ring);
}

void ThreadCommunicator::start_engine(Way way) {
  std::thread& engine = engines_[static_cast<std::size_t>(way)];
  if (engine.joinable()) return;
  try {
    engine = std::thread([this, way] { run_engine(way); });
  } catch (const std::system_error& error) {
    throw RunError(std::string("cannot start a thread: ") + error.what(), rank_);
  }
}

ThreadCommunicator::~ThreadCommunicator() {
  {
    const std::lock_guard lock(ring_.mutex_);
    ring_.seats_[rank_].closed = true;
    ring_.seats_[rank_].changed.notify_all();
  }
  for (std::thread& engine : engines_)
    if (engine.joinable()) engine.join();
  std::unique_lock lock(ring_.mutex_);
  ThreadRing::Seat& mine = ring_.seats_[rank_];
  mine.changed.wait(lock, [&] { return mine.readers == 0; });
}

Completion ThreadCommunicator::exchange(const Exchange& hop,
                                        std::initializer_list<Completion> after) {
  auto started = std::make_shared<ThreadHop>(ring_, rank_, hop, after);
  ThreadRing::Seat& mine = ring_.seats_[rank_];
  start_engine(hop.way);
  {
    const std::lock_guard lock(ring_.mutex_);
    if (ring_.failure_) throw *ring_.failure_;
    ThreadRing::Hops& hops = mine.ways[static_cast<std::size_t>(hop.way)];
    hops.started.push_back(started);
    if (hop.sends()) hops.sends[hop.receiver(rank_, world_size())].push_back(started);
  }
  mine.changed.notify_all();
  return started;
}

void ThreadCommunicator::run_engine(Way way) try {
  ThreadRing::Seat& mine = ring_.seats_[rank_];
  ThreadRing::Hops& my_hops = mine.ways[static_cast<std::size_t>(way)];
  for (;;) {
    std::unique_lock lock(ring_.mutex_);
    mine.changed.wait(lock,
                      [&] { return !my_hops.started.empty() || mine.closed || ring_.failure_; });
    if (ring_.failure_ || my_hops.started.empty()) return;
    const std::shared_ptr<ThreadHop> hop = std::move(my_hops.started.front());
    my_hops.started.pop_front();
    my_hops.taken = hop;
    const Exchange& in = hop->exchange_;

    lock.unlock();
    for (const Completion& dependency : hop->after_) wait_for(dependency);
    lock.lock();
    hop->after_.clear();  // so that hops do not keep each other alive in one long chain
    hop->ready_ = true;
    lock.unlock();
    // The lock is released first, because a woken thread would only wait again for the lock.
    const int n = ring_.world_size();
    if (in.sends()) ring_.seats_[in.receiver(rank_, n)].changed.notify_all();
    if (!in.receives()) continue;

    const int from = in.sender(rank_, n);
    ThreadRing::Seat& theirs = ring_.seats_[from];
    ThreadRing::Hops& their_hops = theirs.ways[static_cast<std::size_t>(way)];
    lock.lock();
    std::deque<std::shared_ptr<ThreadHop>>& sends = their_hops.sends[rank_];
    mine.changed.wait(lock,
                      [&] { return ring_.failure_ || (!sends.empty() && sends.front()->ready_); });
    if (ring_.failure_) return;
    const std::shared_ptr<ThreadHop> peer = sends.front();
    const Exchange& out = peer->exchange_;
    if (in.recv_bytes != out.send_bytes || in.recv_owner != out.send_owner ||
        in.payload != out.payload)
      throw RunError(
          fmt::format("sent {} bytes of owner {} ({}), where rank {} expected {} bytes of "
                      "owner {} ({})",
                      out.send_bytes, out.send_owner, name_of(out.payload), rank_, in.recv_bytes,
                      in.recv_owner, name_of(in.payload)),
          from, in.step);
    ++theirs.readers;
    lock.unlock();
    const std::int64_t begin = monotonic_ns();
    if (in.recv_bytes > 0) std::memcpy(in.recv, out.send, static_cast<std::size_t>(in.recv_bytes));
    const std::int64_t end = monotonic_ns();

    lock.lock();
    --theirs.readers;
    hop->received_ = true;
    hop->times_.recv_begin = begin;
    hop->times_.recv_end = end;
    hop->times_.last_peer = from;
    peer->sent_ = true;
    peer->times_.send_begin = begin;
    peer->times_.send_end = end;
    peer->times_.last_peer = rank_;
    sends.pop_front();
    lock.unlock();
    mine.changed.notify_all();
    theirs.changed.notify_all();
  }
} catch (const RunError& error) {
  ring_.fail(error);
} catch (const std::exception& error) {
  ring_.fail(RunError(error.what(), rank_));
}

}  // namespace ringscope
