#include "core/mpi/mpi_communicator.h"
#include "core/run/cpu_engine.h"

#include <pthread.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "core/mpi/mpi_calls.h"
#include "core/mpi/mpi_hop.h"
#include "core/ring/ring.h"

namespace ringscope {

struct MpiCommunicator::Work {
  Sending sending;
  Receiving receiving;
  bool closed = false;  // no more hops are coming; guarded by the mutex
  Patience patience{20};
};

namespace {

MpiNeighbours neighbours_of(const RingSchedule& ring, const std::vector<int>& world_ranks) {
  if (world_ranks.empty()) return {ring.rank, ring.send_rank(), ring.recv_rank()};
  return {world_ranks[ring.rank], world_ranks[ring.send_rank()], world_ranks[ring.recv_rank()]};
}

}  // namespace

MpiCommunicator::MpiCommunicator(MpiWaits& waits, int rank, int world_size, Options options)
    : waits_(waits),
      rank_(rank),
      world_size_(world_size),
      options_(std::move(options)),
      neighbours_(neighbours_of({rank, world_size}, options_.world_ranks)) {
  const Index most = options_.message_bytes;
  const int self = neighbours_.self;
  work_.reset(new Work{{waits, self, neighbours_.send_rank, most, options_.pulse},
                       {waits, self, neighbours_.recv_rank, most, options_.pulse}});
}

MpiCommunicator::~MpiCommunicator() {
  {
    const std::lock_guard lock(waits_.mutex_);
    work_->closed = true;
    waits_.has_work_.notify_all();
  }
  if (progress_.joinable()) progress_.join();
  if (work_->sending.has_requests() || work_->receiving.has_requests())
    keep_until_exit(std::move(work_));
}

Completion MpiCommunicator::exchange(const Exchange& hop, std::initializer_list<Completion> after) {
  auto started = std::make_shared<MpiHop>(waits_, neighbours_, hop, after, options_.pulse);
  const std::lock_guard lock(waits_.mutex_);
  if (waits_.failure_) throw *waits_.failure_;
  work_->sending.add(started);
  work_->receiving.add(started);
  waits_.has_work_.notify_all();
  try {
    if (!progress_.joinable()) progress_ = std::thread([this] { run_progress(); });
  } catch (const std::system_error& error) {
    throw RunError(std::string("cannot start a thread: ") + error.what(), neighbours_.self);
  }
  return started;
}

void MpiCommunicator::run_progress() try {
  ::pthread_setname_np(::pthread_self(), kProgressThread);  // for debuggers and top
  for (;;) {
    bool moved = false;
    {
      const std::lock_guard turn(waits_.calls_);
      const bool sent = work_->sending.look(), received = work_->receiving.look();
      moved = sent || received;
    }
    if (!wait_for_work(moved)) return;
    if (work_->sending.is_idle() && work_->receiving.is_idle()) {
      const std::lock_guard turn(waits_.calls_);
      // A message that MPI has accepted may not have left yet.
      int found = 0;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, number_of(Tag::block), MPI_COMM_WORLD, &found,
                           MPI_STATUS_IGNORE),
                "MPI_Iprobe");
    }
  }
} catch (const std::exception&) {
  const RunError error = handled_error(neighbours_.self);
  waits_.fail(error);
  if (options_.on_failure) options_.on_failure(error);
}

// Return false when nothing will be left to do.
bool MpiCommunicator::wait_for_work(bool moved) {
  Work& work = *work_;
  std::unique_lock lock(waits_.mutex_);
  if (waits_.failure_) return false;
  if (moved || work.sending.has_new_hop() || work.receiving.has_new_hop()) {
    work.patience.renew();
    return true;
  }
  const bool idle = work.sending.is_idle() && work.receiving.is_idle();
  if (idle && work.closed) return false;
  const bool hurry = waits_.waiting_ > 0 || work.sending.is_moving() || work.receiving.is_moving();
  const auto pause = work.patience.pause(std::chrono::microseconds(hurry  ? 100
                                                                   : idle ? 2000
                                                                          : 500));
  if (pause == Patience::Duration(0)) {
    lock.unlock();
    std::this_thread::yield();
    return true;
  }
  if (waits_.has_work_.wait_for(lock, pause) == std::cv_status::no_timeout) work.patience.renew();
  return !waits_.failure_;
}

std::unique_ptr<RankEngine> MpiEngine::make(Rank& rank, const Listener& listener) {
  MpiCommunicator::Options options;
  options.pulse = &rank.pulse();
  options.on_failure = [this](const RunError& error) { line_.fail(error); };
  return std::make_unique<CpuRankEngine>(
      std::make_unique<MpiCommunicator>(waits_, rank.rank(), rank.config().world_size,
                                        std::move(options)),
      rank, listener, RankLives::in_a_process);
}

}  // namespace ringscope
