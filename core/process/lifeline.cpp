#include "core/process/lifeline.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/process/lifeline_impl.h"
#include "core/process/socket.h"

namespace ringscope {
namespace {

using Lock = std::unique_lock<std::mutex>;

// Orderly ends take milliseconds. One that hangs must not hang the program.
constexpr double kFarewell = 2;
// Without rank 0 the others cannot hear each other, but the speaker needs no longer than this.
constexpr double kSpeech = 0.5;

std::shared_ptr<const std::string> shared(const std::string& text) {
  return std::make_shared<const std::string>(text);
}

std::chrono::steady_clock::time_point in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

}  // namespace

Lifeline::Impl::Impl(int rank, int world_size, double timeout_s)
    : rank_(rank),
      world_size_(world_size),
      timeout_s_(timeout_s),
      seats_(static_cast<std::size_t>(world_size)),
      wake_(make_wake_up()),
      now_(steady_seconds()) {
  if (rank == 0) {
    for (int r = 1; r < world_size; ++r) peers_.push_back(r);
  } else {
    peers_ = {0};
  }
}

Lifeline::Impl::~Impl() { stop(); }

void Lifeline::Impl::open_door(Descriptor listener, const Invitation& invitation) {
  acceptor_.emplace(std::move(listener), invitation, world_size_);
}

void Lifeline::Impl::take_in(int rank, Descriptor socket) {
  Seat& seat = seat_of(rank);
  seat.connection = std::make_unique<Connection>(std::move(socket));
  seat.is_joined = true;
  seat.heard_at = steady_seconds();
}

std::string Lifeline::Impl::take_message(int rank) {
  std::deque<std::string>& inbox = seat_of(rank).inbox;
  std::string message = std::move(inbox.front());
  inbox.pop_front();
  return message;
}

void Lifeline::Impl::throw_if_failed() const {
  if (verdict_) throw verdict_->error();
}

bool Lifeline::Impl::all_peers(const std::function<bool(int)>& holds) const {
  return std::all_of(peers_.begin(), peers_.end(), holds);
}

void Lifeline::Impl::await(Lock& lock, Awaited what) {
  awaited_ = what;
  awaited_since_ = steady_seconds();
  wake();
  changed_.wait(lock, [&] { return verdict_ || all_peers([&](int r) { return has(r, what); }); });
  awaited_ = Awaited::nothing;
  throw_if_failed();
}

void Lifeline::Impl::fail_here(const RunError& error) {
  if (verdict_ || has_left_) return;
  wire::Failure failure{error.rank() < 0 ? rank_ : error.rank(), error.step(), false, error.what()};
  if (failure.rank == rank_ && failure.step < 0) failure.step = last_status(rank_).step;
  rank_ == 0 ? hold(failure) : report(failure);
  wake();
}

void Lifeline::Impl::send_to_all(wire::Type part, wire::Type last,
                                 std::shared_ptr<const std::string> text) {
  for_connections([&](Connection& connection) { connection.send_message(part, last, text); });
  wake();
}

Lifeline::Lifeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Lifeline::~Lifeline() = default;

std::unique_ptr<Lifeline> Lifeline::host(LifelineDoor door, int world_size, double timeout_s) {
  auto impl = std::make_unique<Impl>(0, world_size, timeout_s);
  impl->open_door(std::move(door.socket_), invitation_from(door.invitation_));
  impl->start();
  {
    Lock lock(impl->mutex_);
    impl->await(lock, Impl::Awaited::arrival);
  }
  return std::unique_ptr<Lifeline>(new Lifeline(std::move(impl)));
}

std::unique_ptr<Lifeline> Lifeline::join(const std::string& invitation, int rank, int world_size,
                                         double timeout_s) {
  Descriptor socket = reach_rank_0(invitation_from(invitation), rank, world_size, timeout_s);
  auto impl = std::make_unique<Impl>(rank, world_size, timeout_s);
  impl->take_in(0, std::move(socket));
  impl->start();
  return std::unique_ptr<Lifeline>(new Lifeline(std::move(impl)));
}

int Lifeline::rank() const { return impl_->rank_; }

int Lifeline::world_size() const { return impl_->world_size_; }

void Lifeline::watch(const RankPulse& pulse, OnFailure on_failure) {
  const Lock lock(impl_->mutex_);
  impl_->pulse_ = &pulse;
  impl_->on_failure_ = std::move(on_failure);
  ++impl_->watch_;
  impl_->is_call_due_ = impl_->verdict_ && impl_->on_failure_;
  impl_->wake();
}

void Lifeline::unwatch() {
  Lock lock(impl_->mutex_);
  impl_->pulse_ = nullptr;
  impl_->on_failure_ = nullptr;
  impl_->is_call_due_ = false;
  impl_->wake();
  if (std::this_thread::get_id() == impl_->thread_id()) return;  // called by on_failure itself
  impl_->changed_.wait(lock, [&] { return !impl_->is_calling_; });
}

void Lifeline::fail(const RunError& error) {
  const Lock lock(impl_->mutex_);
  impl_->fail_here(error);
}

std::optional<RunError> Lifeline::failure() const { return wait_for_failure(0); }

std::optional<RunError> Lifeline::wait_for_failure(double seconds) const {
  Lock lock(impl_->mutex_);
  impl_->changed_.wait_until(lock, in(seconds), [&] { return impl_->verdict_.has_value(); });
  if (!impl_->verdict_) return std::nullopt;
  return impl_->verdict_->error();
}

std::vector<std::string> Lifeline::gather(const std::string& mine) {
  const auto text = shared(mine);
  Lock lock(impl_->mutex_);
  impl_->throw_if_failed();
  if (impl_->rank_ != 0) {
    impl_->send_to_all(wire::Type::message_part, wire::Type::message_end, text);
    return {};
  }
  impl_->await(lock, Impl::Awaited::message);
  std::vector<std::string> all = {mine};
  for (const int r : impl_->peers_) all.push_back(impl_->take_message(r));
  return all;
}

std::string Lifeline::broadcast(const std::string& of_rank_0) {
  const auto given = shared(of_rank_0);
  Lock lock(impl_->mutex_);
  impl_->throw_if_failed();
  if (impl_->rank_ == 0) {
    impl_->send_to_all(wire::Type::message_part, wire::Type::message_end, given);
    return of_rank_0;
  }
  impl_->await(lock, Impl::Awaited::message);
  return impl_->take_message(0);
}

std::vector<std::optional<std::string>> Lifeline::last_words(const std::string& mine,
                                                             double seconds) {
  const auto text = shared(mine);
  Lock lock(impl_->mutex_);
  const auto until = in(seconds);
  if (impl_->rank_ != 0) {
    impl_->send_to_all(wire::Type::words_part, wire::Type::words_end, text);
    impl_->changed_.wait_until(
        lock, until, [&] { return impl_->are_words_heard_ || impl_->seat_of(0).is_gone; });
    return {};
  }
  impl_->changed_.wait_until(lock, until, [&] {
    return impl_->all_peers([&](int r) {
      const Impl::Seat& seat = impl_->seat_of(r);
      return seat.is_gone || !seat.is_joined || seat.last_words.has_value();
    });
  });
  std::vector<std::optional<std::string>> all = {mine};
  for (const int r : impl_->peers_)
    all.push_back(std::exchange(impl_->seat_of(r).last_words, std::nullopt));
  return all;
}

bool Lifeline::is_speaker() const {
  const Lock lock(impl_->mutex_);
  if (impl_->rank_ == 0) return !impl_->is_buried_;
  // A rank that got rank 0's verdict leaves the speaking to rank 0.
  if (impl_->has_left_ || impl_->is_verdict_from_rank_0_ || impl_->has_rank_0_spoken_) return false;
  return std::all_of(impl_->seats_.begin(), impl_->seats_.begin() + impl_->rank_,
                     [](const Impl::Seat& seat) { return seat.is_gone; });
}

void Lifeline::leave() {
  {
    Lock lock(impl_->mutex_);
    if (impl_->has_left_) return;
    impl_->throw_if_failed();
    // This goes behind all messages. Rank 0's word that all have left is its last to each.
    if (impl_->rank_ != 0) impl_->send_to_all(wire::Type::bye, wire::Type::bye, shared(""));
    impl_->await(lock, Impl::Awaited::farewell);
    impl_->has_left_ = true;
    if (impl_->rank_ == 0) {
      impl_->send_to_all(wire::Type::bye, wire::Type::bye, shared(""));
      impl_->changed_.wait_until(lock, in(kFarewell), [&] {
        return impl_->all_peers([&](int r) { return impl_->seat_of(r).connection == nullptr; });
      });
    }
  }
  impl_->stop();
}

void Lifeline::leave_after_failure(double seconds) {
  const bool speaks = is_speaker();
  {
    Lock lock(impl_->mutex_);
    if (impl_->has_left_) return;
    if (impl_->rank_ == 0) {
      impl_->for_connections([](Connection& peer) { peer.send(wire::Type::spoken); });
    } else if (!speaks) {
      const auto has_spoken = [&] {
        return impl_->has_rank_0_spoken_ || impl_->seat_of(0).is_gone;
      };
      impl_->changed_.wait_until(lock, in(seconds), has_spoken);
      if (!impl_->has_rank_0_spoken_)
        impl_->changed_.wait_until(lock, in(std::min(seconds, kSpeech)), [] { return false; });
    }
    impl_->has_left_ = true;
  }
  impl_->stop();
}

}  // namespace ringscope
