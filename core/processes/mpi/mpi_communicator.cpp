#include "core/processes/mpi/mpi_communicator.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/base/clock.h"
#include "core/processes/mpi/mpi_calls.h"
#include "core/ring/ring.h"
#include "core/threads/cpu_engine.h"

namespace ringscope {

namespace {

HopNote note_of(const Exchange& hop, Index bytes, int owner) {
  return {bytes, static_cast<std::int32_t>(hop.pass), static_cast<std::int32_t>(hop.payload),
          hop.step, owner};
}

}  // namespace

std::string HopNote::text(const HopNote& other) const {
  const std::string_view payload_name = name_of(static_cast<Payload>(payload));
  if (pass == other.pass && step == other.step)
    return fmt::format("{} bytes of owner {} ({})", bytes, owner, payload_name);
  return fmt::format("{} bytes of owner {} ({}, {} step {})", bytes, owner, payload_name,
                     name_of(static_cast<Pass>(pass)), step);
}

bool HopHalf::look() {
  if (hop_ == nullptr) {
    const std::lock_guard lock(waits_.mutex_);
    if (hops_.empty()) return false;
    hop_ = std::move(hops_.front());
    hops_.pop_front();
    peer_ = peer_of(*hop_);
  }
  bool moved = false;
  with_step_in_errors(rank_, hop_->exchange.step, [&] {
    switch (stage_) {
      case Stage::not_ready:
        if (!hop_->is_ready()) return;
        stage_ = Stage::agreeing;
        start(hop_->exchange);
        moved = true;
        return;
      case Stage::agreeing:
        moved = look_for_note();
        return;
      case Stage::moving:
        moved = look_for_blocks();
        return;
    }
  });
  return moved;
}

bool HopHalf::look_for_note() {
  int done = 0;
  check_mpi(MPI_Test(&note_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (!done) return false;
  begin_ns_ = monotonic_ns();
  agreed(hop_->exchange);
  stage_ = Stage::moving;
  look_for_blocks();
  return true;
}

bool HopHalf::look_for_blocks() {
  // [progress
  int count = 0;
  completed_.resize(requests_.size());
  check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                         completed_.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome");
  if (count == 0) return false;
  if (pulse_ != nullptr) pulse_->advance();
  // progress]
  std::erase(requests_, MPI_REQUEST_NULL);
  if (!requests_.empty()) return true;
  finished(*hop_, begin_ns_, monotonic_ns());
  hop_ = nullptr;
  stage_ = Stage::not_ready;
  return true;
}

void HopHalf::exchange_notes(Tag mine, Tag theirs) {
  check_mpi(MPI_Irecv(&theirs_, sizeof theirs_, MPI_BYTE, peer_, number_of(theirs, way_),
                      MPI_COMM_WORLD, &note_),
            "MPI_Irecv");
  check_mpi(MPI_Isend(&mine_, sizeof mine_, MPI_BYTE, peer_, number_of(mine, way_), MPI_COMM_WORLD,
                      &requests_.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Isend");
}

void HopHalf::compare(const HopNote& place, int receiver, const HopNote& offer, int sender) const {
  if (place == offer) return;
  throw RunError(fmt::format("sent {}, where rank {} expected {}", offer.text(place), receiver,
                             place.text(offer)),
                 sender, place.step);
}

void Sending::start(const Exchange& hop) {
  mine_ = note_of(hop, hop.send_bytes, hop.send_owner);
  exchange_notes(Tag::offer, Tag::place);
}

void Sending::agreed(const Exchange& hop) {
  compare(theirs_, peer_, mine_, rank_);
  in_messages(hop.send_bytes, [&](Index from, int bytes, MPI_Request* request) {
    check_mpi(MPI_Isend(static_cast<const std::byte*>(hop.send) + from, bytes, MPI_BYTE, peer_,
                        number_of(Tag::block, way_), MPI_COMM_WORLD, request),
              "MPI_Isend");
  });
}

void Sending::finished(MpiHop& hop, std::int64_t begin, std::int64_t end) {
  hop.set_sent(begin, end, peer_);
}

// Post the receive before the sender hears of it, so that a block always finds its place.
void Receiving::start(const Exchange& hop) {
  in_messages(hop.recv_bytes, [&](Index from, int bytes, MPI_Request* request) {
    check_mpi(MPI_Irecv(static_cast<std::byte*>(hop.recv) + from, bytes, MPI_BYTE, peer_,
                        number_of(Tag::block, way_), MPI_COMM_WORLD, request),
              "MPI_Irecv");
  });
  mine_ = note_of(hop, hop.recv_bytes, hop.recv_owner);
  exchange_notes(Tag::place, Tag::offer);
}

void Receiving::agreed(const Exchange&) { compare(mine_, rank_, theirs_, peer_); }

void Receiving::finished(MpiHop& hop, std::int64_t begin, std::int64_t end) {
  hop.set_received(begin, end, peer_);
}

Awaited MpiHop::awaited() const {
  std::unique_lock lock(waits_.mutex_);
  const std::vector<Completion> after = after_;
  lock.unlock();  // because they may lock it themselves
  for (const Completion& earlier : after)
    if (earlier != nullptr && !earlier->done()) return earlier->awaited();
  lock.lock();
  if (!received_) return {peers.from, exchange.step};
  return {sent_ ? peers.self : peers.to, exchange.step};
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

struct MpiCommunicator::Work {
  struct Halves {
    Sending sending;
    Receiving receiving;
  };
  std::vector<Halves> ways;
  bool closed = false;  // no more hops are coming; guarded by the mutex
  Patience patience{20};

  // Return whether `what` holds for any half of any way.
  template <class What>
  bool any(const What& what) const {
    return std::ranges::any_of(
        ways, [&](const Halves& way) { return what(way.sending) || what(way.receiving); });
  }
  bool is_idle() const {
    return !any([](const HopHalf& half) { return !half.is_idle(); });
  }
};

MpiCommunicator::MpiCommunicator(MpiWaits& waits, int rank, int world_size, Options options)
    : waits_(waits),
      rank_(rank),
      world_size_(world_size),
      options_(std::move(options)),
      work_(std::make_unique<Work>()) {
  const Index most = options_.message_bytes;
  for (int way = 0; way < kWays; ++way)
    work_->ways.push_back({{waits, rank_, static_cast<Way>(way), most, options_.pulse},
                           {waits, rank_, static_cast<Way>(way), most, options_.pulse}});
}

MpiCommunicator::~MpiCommunicator() {
  {
    const std::lock_guard lock(waits_.mutex_);
    work_->closed = true;
    waits_.has_work_.notify_all();
  }
  if (progress_.joinable()) progress_.join();
}

Completion MpiCommunicator::exchange(const Exchange& hop, std::initializer_list<Completion> after) {
  MpiPeers peers{rank_, hop.receiver(rank_, world_size_), hop.sender(rank_, world_size_)};
  if (!hop.receives()) peers.from = peers.to;  // who is waited for
  auto started = std::make_shared<MpiHop>(waits_, peers, hop, after, options_.pulse);
  const std::lock_guard lock(waits_.mutex_);
  Work::Halves& way = work_->ways[static_cast<std::size_t>(hop.way)];
  if (hop.sends()) way.sending.add(started);
  if (hop.receives()) way.receiving.add(started);
  waits_.has_work_.notify_all();
  try {
    if (!progress_.joinable()) progress_ = std::thread([this] { run_progress(); });
  } catch (const std::system_error& error) {
    throw RunError(std::string("cannot start a thread: ") + error.what(), rank_);
  }
  return started;
}

void MpiCommunicator::run_progress() try {
  ::pthread_setname_np(::pthread_self(), "ring-progress");  // for debuggers, top and tests
  for (;;) {
    bool moved = false;
    for (Work::Halves& way : work_->ways) {
      const bool sent = way.sending.look(), received = way.receiving.look();
      moved = moved || sent || received;
    }
    if (!wait_for_work(moved)) return;
    if (work_->is_idle()) {
      // A message that MPI has accepted may not have left yet.
      int found = 0;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, number_of(Tag::block, Way::ring), MPI_COMM_WORLD, &found,
                           MPI_STATUS_IGNORE),
                "MPI_Iprobe");
    }
  }
} catch (const std::exception&) {
  if (options_.on_failure) options_.on_failure(handled_error(rank_));
}

// Return false when nothing will be left to do.
bool MpiCommunicator::wait_for_work(bool moved) {
  Work& work = *work_;
  std::unique_lock lock(waits_.mutex_);
  if (moved || work.any([](const HopHalf& half) { return half.has_new_hop(); })) {
    work.patience.renew();
    return true;
  }
  const bool idle = work.is_idle();
  if (idle && work.closed) return false;
  const bool hurry =
      waits_.waiting_ > 0 || work.any([](const HopHalf& half) { return half.is_moving(); });
  const auto pause = work.patience.pause(std::chrono::microseconds(hurry  ? 100
                                                                   : idle ? 2000
                                                                          : 500));
  if (pause > Patience::Duration(0) &&
      waits_.has_work_.wait_for(lock, pause) == std::cv_status::no_timeout)
    work.patience.renew();
  return true;
}

std::unique_ptr<RankEngine> MpiEngine::make(Rank& rank, const Listener& listener) {
  MpiCommunicator::Options options;
  options.pulse = &rank.pulse();
  options.on_failure = [this](const std::exception& error) { line_.fail(error); };
  return std::make_unique<CpuRankEngine>(
      std::make_unique<MpiCommunicator>(waits_, rank.rank(), rank.config().world_size,
                                        std::move(options)),
      rank, listener, RankLives::in_a_process);
}

}  // namespace ringscope
