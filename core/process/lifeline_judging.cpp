#include <fmt/format.h>

#include <algorithm>

#include "core/process/lifeline_impl.h"
#include "core/process/socket.h"

namespace ringscope {
namespace {

// A rank that exchanges blocks with a dying one may report an error before the death is known here.
// So a report waits a moment: a death without a word is the cause, never the consequence.
constexpr double kGrace = 0.2;
// After so many periods without a status something is wrong with the whole process.
constexpr double kMissedBeats = 2.5;

}  // namespace

void Lifeline::Impl::judge() {
  if (verdict_ || has_left_) return;
  judge_silence();
  if (held_) {  // only a death takes precedence
    if (now_ >= held_until_) settle(*held_);
    return;
  }
  if (rank_ == 0) judge_progress();
  judge_absence();
}

// Judge by signs of life, which a living process's lifeline thread gives whatever else it does.
void Lifeline::Impl::judge_silence() {
  for (const int r : peers_) {
    const Seat& seat = seat_of(r);
    if (verdict_ || !seat.is_joined || now_ - seat.heard_at <= timeout_s_) continue;
    const wire::Failure failure =
        failure_of(r, true, fmt::format("no sign of life for {:g} s", timeout_s_));
    report(failure);  // if it wakes up, it learns why nobody is there any more
    settle(failure);
  }
}

void Lifeline::Impl::judge_progress() {
  std::uint64_t newest = watch_;
  for (const Seat& seat : seats_) newest = std::max(newest, seat.status.watch);
  if (newest != judged_watch_) {
    judged_watch_ = newest;
    stall_judge_.emplace(world_size_, timeout_s_, now_);
    for (Seat& seat : seats_) seat.is_done_for_judge = false;
  }
  if (!stall_judge_ || verdict_) return;
  seat_of(0).status = own_status();
  for (int r = 0; r < world_size_; ++r) {
    Seat& seat = seat_of(r);
    const wire::Status& status = seat.status;
    if (seat.is_done_for_judge) continue;
    if (status.watch < judged_watch_) {
      stall_judge_->heard(r, RankStatus{}, now_);  // it has not begun, but lives
    } else if (status.watch == judged_watch_ && status.is_watched) {
      stall_judge_->heard(r, status.where, now_);
    } else {
      stall_judge_->ended(r, now_);
      seat.is_done_for_judge = true;
    }
  }
  if (const std::optional<RunError> verdict = stall_judge_->verdict(now_))
    settle({verdict->rank(), verdict->step(), false, verdict->what()});
}

// Judge the ranks that do not come to a collective.
void Lifeline::Impl::judge_absence() {
  if (verdict_ || awaited_ == Awaited::nothing) return;
  for (const int r : peers_) {
    Seat& seat = seat_of(r);
    if (has(r, awaited_)) continue;
    if (is_excused(seat)) seat.excused_at = now_;
    if (seat.is_joined && now_ - seat.heard_at > kMissedBeats * status_period())
      continue;  // silence is worse, and is judged elsewhere
    if (now_ - std::max(awaited_since_, seat.excused_at) <= timeout_s_) continue;
    const std::string late =
        awaited_ == Awaited::arrival
            ? fmt::format("did not come within {:g} s", timeout_s_)
            : fmt::format("did not come for {:g} s to where others wait", timeout_s_);
    const wire::Failure failure = failure_of(r, false, late);
    return rank_ == 0 ? settle(failure) : report(failure);
  }
}

bool Lifeline::Impl::has(int rank, Awaited what) const {
  const Seat& seat = seat_of(rank);
  switch (what) {
    case Awaited::nothing:
      return true;
    case Awaited::arrival:
      return seat.is_joined;
    case Awaited::message:
      return !seat.inbox.empty();
    case Awaited::farewell:
      return seat.has_left;
  }
  return false;
}

// Return whether `seat` may be late. A rank in the ring may take long, and the stall judge decides
// whether it stands still. Rank 0 in a collective waits itself.
bool Lifeline::Impl::is_excused(const Seat& seat) const {
  if (rank_ != 0) return seat.status.is_watched || seat.status.is_collecting;
  return stall_judge_ && seat.status.is_watched && seat.status.watch == judged_watch_;
}

// Handle the end of the connection to `rank`.
void Lifeline::Impl::lose(int rank) {
  Seat& seat = seat_of(rank);
  const bool has_reported = seat.has_reported;
  seat.connection.reset();
  seat.is_gone = true;
  changed_.notify_all();
  // What a rank said of itself counts more than that it then ended.
  if (has_left_ || (rank_ != 0 && seat.has_left) || has_reported) return;
  settle(failure_of(rank, true, "its process ended"));
}

void Lifeline::Impl::hold(const wire::Failure& failure) {
  if (verdict_ || held_) return;
  bool is_anybody_left = false;
  for_connections([&](Connection&) { is_anybody_left = true; });
  held_ = failure;
  held_until_ = steady_seconds() + (is_anybody_left ? kGrace : 0);
}

void Lifeline::Impl::report(const wire::Failure& failure) {
  if (rank_ == 0 || has_reported_ || seat_of(0).connection == nullptr) return;
  has_reported_ = true;
  seat_of(0).connection->send(wire::Type::report, wire::pack(failure));
}

// Make `failure` the run's. The others are told before anybody here knows, so this process may end
// then.
void Lifeline::Impl::settle(wire::Failure failure) {
  if (verdict_) return;
  if (failure.rank >= 0 && failure.step < 0) failure.step = last_status(failure.rank).step;
  if (failure.rank >= 0 && failure.is_gone) seat_of(failure.rank).is_gone = true;
  for_connections([&](Connection& connection) {
    connection.drop_messages();
    if (rank_ == 0) connection.send(wire::Type::verdict, wire::pack(failure));
  });
  verdict_ = failure;
  is_call_due_ = on_failure_ != nullptr;
  changed_.notify_all();
}

RankStatus Lifeline::Impl::last_status(int rank) const {
  if (rank == rank_) return own_status().where;
  return seat_of(rank).status.where;
}

wire::Failure Lifeline::Impl::failure_of(int rank, bool is_gone, const std::string& what) const {
  const RankStatus status = last_status(rank);
  const bool is_backward = status.step >= 0 && status.pass == Pass::backward;
  return {rank, status.step, is_gone, what + (is_backward ? " (backward)" : "")};
}

}  // namespace ringscope
