#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/process/invitation.h"
#include "core/process/lifeline.h"
#include "core/process/lifeline_impl.h"
#include "core/process/socket.h"

namespace ringscope {

namespace {

constexpr double kPulsePeriod = 0.01;  // how often a pulse is looked at for a new step
constexpr double kLinger = 0.3;

// Start a thread that takes no signals, because they belong to the program's own threads.
std::thread without_signals(std::function<void()> work) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(work));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

bool differ(const wire::Status& a, const wire::Status& b) {
  return a.where.pass != b.where.pass || a.where.step != b.where.step || a.watch != b.watch ||
         a.is_watched != b.is_watched || a.is_collecting != b.is_collecting;
}

void append_part(std::string& message, std::string_view part) {
  if (message.size() + part.size() > wire::kMaxMessage) throw wire::Malformed();
  message += part;
}

}  // namespace

void Lifeline::Impl::start() {
  thread_ = without_signals([this] { run(); });
}

void Lifeline::Impl::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake();
  thread_.join();
  for (Seat& seat : seats_) seat.connection.reset();
}

void Lifeline::Impl::run() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    poll_sockets(lock);
    send_status();
    judge();
    call_back(lock);
  }
  if (verdict_) linger(lock);
}

// Return how long nothing will be due, if nothing arrives.
double Lifeline::Impl::seconds_to_sleep(double now) const {
  if (is_stopping_ || is_call_due_) return 0;
  double sleep = status_due_ - now;
  if (pulse_ != nullptr) sleep = std::min(sleep, kPulsePeriod);
  if (held_) sleep = std::min(sleep, held_until_ - now);
  return std::max(sleep, 0.0);
}

void Lifeline::Impl::poll_sockets(std::unique_lock<std::mutex>& lock) {
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
  if (acceptor_)
    for (const int socket : acceptor_->sockets(steady_seconds()))
      polled.push_back({socket, POLLIN, 0});
  const std::size_t first_seat = polled.size();
  std::vector<int> ranks;
  for (const int r : peers_) {
    const Connection* connection = seat_of(r).connection.get();
    if (connection == nullptr) continue;
    const int events = POLLIN | (connection->has_unsent() ? POLLOUT : 0);
    polled.push_back({connection->fd(), static_cast<short>(events), 0});
    ranks.push_back(r);
  }
  now_ = steady_seconds();
  const int sleep_ms = static_cast<int>(std::ceil(seconds_to_sleep(now_) * 1e3));
  lock.unlock();
  ::poll(polled.data(), polled.size(), sleep_ms);
  lock.lock();
  clear_wake_up(wake_.get());
  if (acceptor_) admit_joining_ranks();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int events = polled[first_seat + i].revents;
    Connection& connection = *seat_of(ranks[i]).connection;
    if ((events & POLLOUT) != 0) connection.write();
    if ((events & ~POLLOUT) == 0) continue;
    if (!connection.read([&](wire::Type type, std::string_view payload) {
          take_frame(ranks[i], type, payload);
        }))
      lose(ranks[i]);
  }
}

void Lifeline::Impl::admit_joining_ranks() {
  const std::string answer = acceptor_->answer();
  for (Acceptor::JoiningRank& joining : acceptor_->admit(now_)) {
    const int r = joining.request.rank;
    if (r < 1 || r >= world_size_) continue;
    Seat& seat = seat_of(r);
    if (seat.is_joined) continue;  // it came by several addresses
    if (joining.request.version != wire::kVersion || joining.request.world_size != world_size_) {
      settle(failure_of(r, true,
                        joining.request.version != wire::kVersion
                            ? "it is another version of this program than rank 0"
                            : "it counts " + std::to_string(joining.request.world_size) +
                                  " ranks, rank 0 " + std::to_string(world_size_)));
      continue;
    }
    take_in(r, std::move(joining.socket));
    seat.connection->send(wire::Type::welcome, answer);
    if (verdict_) seat.connection->send(wire::Type::verdict, wire::pack(*verdict_));  // too late
    changed_.notify_all();
  }
  if (all_peers([&](int r) { return seat_of(r).is_joined; })) acceptor_.reset();
}

void Lifeline::Impl::take_frame(int from, wire::Type type, std::string_view payload) {
  Seat& seat = seat_of(from);
  seat.heard_at = steady_seconds();
  switch (type) {
    case wire::Type::status: {
      const wire::Status status = wire::unpack<wire::Status>(payload);
      if (differ(status, seat.status)) seat.excused_at = seat.heard_at;
      seat.status = status;
      return;
    }
    case wire::Type::message_part:
    case wire::Type::message_end:
      seat.excused_at = seat.heard_at;
      append_part(seat.message, payload);
      if (type == wire::Type::message_part) return;
      seat.inbox.push_back(std::exchange(seat.message, {}));
      break;
    case wire::Type::bye:
      seat.has_left = true;
      break;
    default:
      rank_ == 0 ? take_frame_at_rank_0(from, type, payload) : take_frame_of_rank_0(type, payload);
  }
  changed_.notify_all();
}

void Lifeline::Impl::take_frame_at_rank_0(int from, wire::Type type, std::string_view payload) {
  Seat& seat = seat_of(from);
  switch (type) {
    case wire::Type::report: {
      seat.has_reported = true;
      const wire::Failure failure = wire::unpack<wire::Failure>(payload);
      if (failure.rank >= world_size_) throw wire::Malformed();
      if (failure.rank == 0 && failure.is_gone) is_buried_ = true;
      hold(failure);
      return;
    }
    case wire::Type::words_part:
    case wire::Type::words_end:
      append_part(seat.words, payload);
      if (type == wire::Type::words_part) return;
      seat.last_words = std::exchange(seat.words, {});
      seat.connection->send(wire::Type::words_heard);
      return;
    default:
      throw wire::Malformed();
  }
}

void Lifeline::Impl::take_frame_of_rank_0(wire::Type type, std::string_view payload) {
  switch (type) {
    case wire::Type::verdict: {
      const wire::Failure failure = wire::unpack<wire::Failure>(payload);
      if (failure.rank >= world_size_) throw wire::Malformed();
      if (!verdict_) is_verdict_from_rank_0_ = true;
      settle(failure);
      return;
    }
    case wire::Type::words_heard:
      are_words_heard_ = true;
      return;
    case wire::Type::spoken:
      has_rank_0_spoken_ = true;
      return;
    default:
      throw wire::Malformed();
  }
}

wire::Status Lifeline::Impl::own_status() const {
  wire::Status status;
  if (pulse_ != nullptr) status.where = pulse_->status();
  status.watch = watch_;
  status.is_watched = pulse_ != nullptr;
  status.is_collecting = awaited_ != Awaited::nothing;
  return status;
}

double Lifeline::Impl::status_period() const { return std::min(0.2, timeout_s_ / 5); }

void Lifeline::Impl::send_status() {
  const wire::Status status = own_status();
  const double now = steady_seconds();
  if (now < status_due_ && !differ(status, sent_status_)) return;
  status_due_ = now + status_period();
  sent_status_ = status;
  const std::string packed = wire::pack(status);
  for_connections([&](Connection& connection) {
    // A peer that does not read must not get a pile of them.
    if (!connection.has_unsent_frames()) connection.send(wire::Type::status, packed);
  });
}

void Lifeline::Impl::call_back(std::unique_lock<std::mutex>& lock) {
  if (!is_call_due_ || !on_failure_) return;
  is_call_due_ = false;
  is_calling_ = true;
  const OnFailure call = on_failure_;
  const RunError failure = verdict_->error();
  lock.unlock();
  call(failure);
  lock.lock();
  is_calling_ = false;
  changed_.notify_all();
}

// Let the peers read to the end, and read their ends, because closing a socket that holds unread
// bytes may destroy what was sent to the peer before. Ranks that join late are told why.
void Lifeline::Impl::linger(std::unique_lock<std::mutex>& lock) {
  const double until = steady_seconds() + kLinger;
  for (;;) {
    now_ = steady_seconds();
    if (acceptor_) admit_joining_ranks();
    std::vector<pollfd> polled;
    if (acceptor_)
      for (const int socket : acceptor_->sockets(now_)) polled.push_back({socket, POLLIN, 0});
    for (const int r : peers_) {
      std::unique_ptr<Connection>& connection = seat_of(r).connection;
      if (connection == nullptr) continue;
      connection->write();
      if (!connection->has_unsent()) connection->end_writing();
      if (!connection->read([](wire::Type, std::string_view) {})) {
        connection.reset();
        continue;
      }
      const int events = POLLIN | (connection->has_unsent() ? POLLOUT : 0);
      polled.push_back({connection->fd(), static_cast<short>(events), 0});
    }
    if (polled.empty() || now_ >= until) return;
    lock.unlock();
    ::poll(polled.data(), polled.size(), 10);
    lock.lock();
  }
}

LifelineDoor::LifelineDoor() {
  Listener listener = listen_on_all_addresses();
  invitation_ = to_text(invitation_to_this_host(listener.port, listener.takes_ipv6));
  socket_ = std::move(listener.socket);
}

}  // namespace ringscope
