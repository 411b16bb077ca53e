#include "core/processes/supervision/lifeline.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace ringscope {
namespace {

constexpr double kPulsePeriod = 0.01;  // how often a pulse is looked at for a new step
constexpr double kLinger = 0.3;
// After so many periods without a status something is wrong with the whole process.
constexpr double kMissedBeats = 2.5;
// A rank that exchanges blocks with a dying one may notice an error before the death is known. So it
// keeps its error to itself for a moment.
constexpr std::chrono::milliseconds kGrace(200);

}  // namespace

// Return `what` has become of the rank, with where it was.
Message Lifeline::Place::failure(int rank, std::string what) const {
  const std::string at = !doing.empty()                                    ? doing
                         : where.step >= 0 && where.pass == Pass::backward ? "backward"
                                                                           : "";
  if (!at.empty()) what += " (" + at + ")";
  Message failure(Message::Kind::verdict, std::move(what));
  failure.rank = rank;
  failure.step = where.step;
  failure.number = 3;
  return failure;
}

// Call f(connection) for the peers that are there.
template <class F>
void Lifeline::for_connections(const F& f) {
  for (const int r : peers_)
    if (Connection* const connection = seats_[r].connection.get()) f(*connection);
}

// ---
// What callers ask for.

Lifeline::Lifeline(int rank, int world_size, double timeout_s, OnFailure on_failure)
    : rank_(rank),
      world_size_(world_size),
      timeout_s_(timeout_s),
      on_failure_(std::move(on_failure)),
      seats_(static_cast<std::size_t>(world_size)) {
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) throw RunError("no pipe", rank);
  wake_read_ = Descriptor(ends[0]);
  wake_write_ = Descriptor(ends[1]);
  for (int r = 0; r < world_size; ++r)
    if ((rank == 0) != (r == 0)) peers_.push_back(r);
}

std::unique_ptr<Lifeline> Lifeline::host(LifelineDoor door, int world_size, double timeout_s,
                                         OnFailure on_failure) {
  std::unique_ptr<Lifeline> line(new Lifeline(0, world_size, timeout_s, std::move(on_failure)));
  line->acceptor_.emplace(std::move(door), world_size);
  line->start();
  return line;
}

std::unique_ptr<Lifeline> Lifeline::join(const std::string& invitation, int rank, int world_size,
                                         double timeout_s, OnFailure on_failure) {
  // Rank 0, which knows more, speaks first of a rank that does not come.
  const double patience = timeout_s + 1 + 0.2 * std::min(rank, 10);
  ReachedRank0 reached = reach_rank_0(invitation, rank, world_size, patience);
  std::unique_ptr<Lifeline> line(new Lifeline(rank, world_size, timeout_s, std::move(on_failure)));
  line->take_in(0, std::move(reached.connection));
  for (const Message& message : reached.said) line->take(0, message);
  line->start();
  return line;
}

void Lifeline::start() {
  // It takes no signals, because they belong to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return all_peers(&Seat::has_joined); });
}

void Lifeline::show(RankPulse& pulse) {
  const Lock lock(mutex_);
  if (pulse_ != &between_runs_) progress_before_ += pulse_->status().progress + 1;
  pulse_ = &pulse;
  wake();
}

void Lifeline::doing(const char* what) {
  const Lock lock(mutex_);
  doing_ = what;
  send_status();
}

void Lifeline::fail(const std::exception& error) {
  const auto* const known = dynamic_cast<const RunError*>(&error);
  const bool is_input = dynamic_cast<const InputError*>(&error) != nullptr;
  if (!is_input) std::this_thread::sleep_for(kGrace);
  {
    const Lock lock(mutex_);
    Message told(Message::Kind::report, error.what());
    told.rank = known != nullptr && known->rank() >= 0 ? known->rank() : rank_;
    if (known != nullptr) told.step = known->step();
    if (told.step < 0 && told.rank == rank_) told.step = own_place().where.step;
    told.number = is_input ? 2 : 3;
    if (!told_) told_ = told;
    wake();
  }
  for (;;) ::pause();  // the thread ends the process
}

void Lifeline::leave() {
  {
    Lock lock(mutex_);
    if (has_left_) return;
    const Message bye(Message::Kind::bye, "");
    if (rank_ != 0) for_connections([&](Connection& rank_0) { rank_0.send(bye); });
    while (!all_peers(&Seat::has_left)) {
      between_runs_.waits_for(
          *std::ranges::find_if(peers_, [&](int r) { return !seats_[r].has_left; }));
      changed_.wait(lock);
    }
    if (rank_ == 0) {  // a rank that is stopped now would never end
      for_connections([&](Connection& peer) { peer.send(bye); });
      is_parting_ = true;
      changed_.wait(lock, [&] { return all_peers(&Seat::is_gone); });
    }
    has_left_ = true;
  }
  stop();
}

void Lifeline::wake() { (void)!::write(wake_write_.get(), "", 1); }

void Lifeline::stop() {
  if (!thread_.joinable()) return;
  {
    const Lock lock(mutex_);
    is_stopping_ = true;
    wake();
  }
  thread_.join();
}

// ---
// The thread.

void Lifeline::take_in(int rank, std::unique_ptr<Connection> connection) {
  Seat& seat = seats_[rank];
  seat.connection = std::move(connection);
  seat.has_joined = true;
  seat.heard_at = steady_seconds();
}

void Lifeline::run() {
  Lock lock(mutex_);
  while (!is_stopping_) {
    poll_sockets(lock);
    send_status();
    if (!has_left_) judge();
    if (verdict_) end_process(lock);
  }
  if (has_left_) linger();
}

void Lifeline::poll_sockets(Lock& lock) {
  now_ = steady_seconds();
  std::vector<pollfd> polled = {{wake_read_.get(), POLLIN, 0}};
  if (acceptor_)
    for (const int socket : acceptor_->sockets(now_)) polled.push_back({socket, POLLIN, 0});
  const std::size_t first_seat = polled.size();
  std::vector<int> ranks;
  for (const int r : peers_) {
    const Connection* const connection = seats_[r].connection.get();
    if (connection == nullptr) continue;
    const int events = POLLIN | (connection->has_unsent() ? POLLOUT : 0);
    polled.push_back({connection->fd(), static_cast<short>(events), 0});
    ranks.push_back(r);
  }
  double sleep_s = std::max(status_due_ - now_, 0.0);
  if (pulse_ != &between_runs_) sleep_s = std::min(sleep_s, kPulsePeriod);
  lock.unlock();
  ::poll(polled.data(), polled.size(), static_cast<int>(std::ceil(sleep_s * 1e3)));
  lock.lock();
  char woken[64];
  while (::read(wake_read_.get(), woken, sizeof woken) > 0) {
  }
  if (acceptor_) admit_joining_ranks();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int events = polled[first_seat + i].revents;
    Connection& connection = *seats_[ranks[i]].connection;
    if ((events & POLLOUT) != 0) connection.write();
    if ((events & ~POLLOUT) == 0) continue;
    if (!connection.read([&](const Message& message) { take(ranks[i], message); })) lose(ranks[i]);
  }
}

void Lifeline::admit_joining_ranks() {
  for (Acceptor::JoiningRank& joining : acceptor_->admit(now_)) {
    const int r = joining.request.rank;
    if (r < 1 || r >= world_size_ || seats_[r].has_joined)
      continue;  // it came by several addresses
    joining.connection->send(acceptor_->welcome());
    take_in(r, std::move(joining.connection));
    if (joining.request.number != world_size_)
      settle(Place().failure(r, fmt::format("it counts {} ranks, rank 0 {}", joining.request.number,
                                            world_size_)),
             true);
  }
  if (!all_peers(&Seat::has_joined)) return;
  acceptor_.reset();
  judge_.emplace(world_size_, timeout_s_, steady_seconds());
  changed_.notify_all();
}

void Lifeline::take(int from, const Message& message) {
  Seat& seat = seats_[from];
  seat.heard_at = steady_seconds();
  const bool names_a_rank = message.rank >= 0 && message.rank < world_size_;
  switch (message.kind) {
    case Message::Kind::status:
      seat.last.where = {message.progress, message.pass == 0 ? Pass::forward : Pass::backward,
                         message.step, message.waiting_for};
      seat.last.doing = message.text;
      if (judge_) judge_->heard(from, seat.last.where, seat.heard_at);
      return;
    case Message::Kind::report: {
      if (rank_ != 0 || !names_a_rank) return;
      Message failure = message;
      if (failure.step < 0) failure.step = place_of(failure.rank).where.step;
      return settle(failure, true);
    }
    case Message::Kind::lost:
      return settle(message, false);  // somebody else has said so
    case Message::Kind::verdict:
      if (rank_ != 0 && names_a_rank) settle(message, false);
      return;
    case Message::Kind::bye:
      seat.has_left = true;
      if (judge_) judge_->ended(from, seat.heard_at);
      return changed_.notify_all();
    case Message::Kind::join:
    case Message::Kind::welcome:
      return;
  }
}

// Handle the end of the connection to `rank`.
void Lifeline::lose(int rank) {
  Seat& seat = seats_[rank];
  seat.connection.reset();
  seat.is_gone = true;
  changed_.notify_all();
  const bool is_end = rank_ == 0 ? is_parting_ : seat.has_left;
  if (!is_end) settle(seat.last.failure(rank, "its process ended"), rank_ <= 1);
}

Lifeline::Place Lifeline::own_place() const {
  Place here{pulse_->status(), pulse_ == &between_runs_ ? doing_ : ""};
  here.where.progress += progress_before_;
  return here;
}

void Lifeline::send_status() {
  const Place here = own_place();
  if (now_ < status_due_ && !here.differs(sent_)) return;
  status_due_ = now_ + status_period();
  sent_ = here;
  if (judge_) judge_->heard(0, here.where, steady_seconds());
  Message status(Message::Kind::status, here.doing);
  status.step = here.where.step;
  status.pass = here.where.pass == Pass::backward ? 1 : 0;
  status.waiting_for = here.where.waiting_for;
  status.progress = here.where.progress;
  for_connections([&](Connection& connection) {
    // A peer that does not read must not get a pile of them.
    if (!connection.has_unsent()) connection.send(status);
  });
}

void Lifeline::judge() {
  if (verdict_) return;
  if (told_ && rank_ == 0) return settle(*told_, true);
  if (told_ && !std::exchange(has_told_, true)) seats_[0].connection->send(*told_);
  for (const int r : peers_) {
    Seat& seat = seats_[r];
    if (seat.connection == nullptr || now_ - seat.heard_at <= timeout_s_) continue;
    Message lost = seat.last.failure(r, fmt::format("no sign of life for {:g} s", timeout_s_));
    settle(lost, rank_ <= 1);
    lost.kind = Message::Kind::lost;
    return seat.connection->send(lost);  // if it wakes up, it learns why nobody is there any more
  }
  if (rank_ != 0) return;
  if (judge_) {
    if (const std::optional<RunError> found = judge_->verdict(now_)) {
      // A rank that has been quiet for some time is worse than one that stands still.
      const auto quiet_s = [&](int r) {
        return seats_[r].connection == nullptr ? 0 : now_ - seats_[r].heard_at;
      };
      const bool is_any_quiet = std::ranges::any_of(
          peers_, [&](int r) { return quiet_s(r) > kMissedBeats * status_period(); });
      if (is_any_quiet && (found->rank() == 0 || quiet_s(found->rank()) < timeout_s_)) return;
      Place place = place_of(found->rank());
      place.where.pass = Pass::forward;  // the judge says itself if it is the other one
      settle(place.failure(found->rank(), found->what()), true);
    }
    return;
  }
  if (now_ - begin_ <= timeout_s_) return;
  for (const int r : peers_)
    if (!seats_[r].has_joined)
      return settle(Place().failure(r, fmt::format("did not come within {:g} s", timeout_s_)),
                    true);
}

void Lifeline::settle(const Message& failure, bool speaks) {
  if (verdict_ || has_left_) return;
  verdict_ = failure;
  verdict_->kind = Message::Kind::verdict;
  speaks_ = speaks;
}

// Speak before the others learn of it. A launcher kills a job of which one process ends with an error,
// and that would kill the speaker, too.
void Lifeline::end_process(Lock& lock) {
  const Message failure = *verdict_;
  lock.unlock();
  on_failure_(RunError(failure.text, failure.rank, failure.step), failure.number, speaks_);
  lock.lock();
  if (rank_ == 0) for_connections([&](Connection& connection) { connection.send(failure); });
  linger();
  // Without rank 0 nobody tells that rank 1 has spoken, so the others give it time. When it has, the
  // launcher ends them.
  if (rank_ > 1 && seats_[0].is_gone) std::this_thread::sleep_for(5 * kGrace);
  ::_exit(failure.number);
}

// Let the peers read to the end, and read their ends, because closing a socket that holds unread
// bytes may destroy what was sent to the peer before. Ranks that join late are told why.
void Lifeline::linger() {
  const double until = steady_seconds() + kLinger;
  for (;;) {
    now_ = steady_seconds();
    std::vector<pollfd> polled;
    if (acceptor_) {
      for (Acceptor::JoiningRank& joining : acceptor_->admit(now_)) {
        joining.connection->send(acceptor_->welcome());
        joining.connection->send(*verdict_);
        joining.connection->end_writing();
      }
      for (const int socket : acceptor_->sockets(now_)) polled.push_back({socket, POLLIN, 0});
    }
    for (const int r : peers_) {
      std::unique_ptr<Connection>& connection = seats_[r].connection;
      if (connection == nullptr) continue;
      connection->write();
      if (!connection->has_unsent()) connection->end_writing();
      if (!connection->read([](const Message&) {})) {
        connection.reset();
        continue;
      }
      const int events = POLLIN | (connection->has_unsent() ? POLLOUT : 0);
      polled.push_back({connection->fd(), static_cast<short>(events), 0});
    }
    if (polled.empty() || now_ >= until) return;
    ::poll(polled.data(), polled.size(), 10);
  }
}

}  // namespace ringscope
