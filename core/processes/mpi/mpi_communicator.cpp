#include "core/processes/mpi/mpi_communicator.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/processes/mpi/mpi_calls.h"
#include "core/threads/cpu_engine.h"

namespace ringscope {

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
