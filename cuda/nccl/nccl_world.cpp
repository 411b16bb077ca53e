#include "cuda/nccl/nccl_world.h"

#include <chrono>

#include "core/base/buffer.h"
#include "core/trace/recorder.h"
#include "cuda/base/stream.h"

namespace ringscope::cuda {

namespace {

// Call f(). What it throws becomes a RunError of `rank`, which is passed to `fail`.
template <class Fail, class F>
void guarded(int rank, Fail&& fail, F&& f) noexcept {
  try {
    f();
  } catch (const RunError& error) {
    fail(error.rank() >= 0 ? error : RunError(error.what(), rank));
  } catch (const std::exception& error) {
    fail(RunError(error.what(), rank));
  }
}

}  // namespace

ncclUniqueId new_nccl_id() {
  ncclUniqueId id;
  if (const ncclResult_t status = nccl_or_throw().get_unique_id(&id); status != ncclSuccess)
    throw NcclError(status, "ncclGetUniqueId", nccl_or_throw().get_last_error(nullptr));
  return id;
}

NcclWorld::NcclWorld(const ncclUniqueId& id, int world_size, const std::vector<RankSeat>& seats,
                     const NcclLimits& limits, GiveUp failed_elsewhere)
    : world_size_(world_size),
      meets_all_(limits.meets_all),
      failed_elsewhere_(std::move(failed_elsewhere)),
      give_up_([this] { throw_if_failed(); }) {
  for (const RankSeat& seat : seats)
    places_.push_back(
        {seat.rank, seat.device, std::make_unique<MemoryOfDevice>(seat.device), nullptr});
  connect(id, limits);
  throw_if_failed();
  watcher_ = std::thread([this] { watch(); });
}

NcclWorld::~NcclWorld() {
  has_ended_ = true;
  if (watcher_.joinable()) watcher_.join();
  close();
}

NcclWorld::Place& NcclWorld::at(int rank) {
  for (Place& place : places_)
    if (place.rank == rank) return place;
  throw RunError("the rank is not of this process", rank);
}

// What the first hop needs. No GPU memory is allocated or freed while a hop is in progress, because
// that would wait for kernels of other ranks on the GPU, which wait for this rank.
struct NcclWorld::Greeting {
  static constexpr Index kBytes = 64;

  explicit Greeting(MemorySpace& memory)
      : meter(memory), sent(&meter, kBytes), received(&meter, kBytes) {}

  MemoryMeter meter;
  Buffer<std::byte> sent, received;
  Stream stream;  // after the memory, so that it ends before the memory that its work uses
  Event done{EventKind::untimed};
};

template <class F>
void NcclWorld::for_each_place(F&& f) {
  const auto fails = [this](const RunError& error) { fail(error); };
  std::vector<std::thread> threads;
  try {
    for (Place& place : places_)
      threads.emplace_back([&] {
        guarded(place.rank, fails, [&] {
          const CurrentDevice current(place.device);
          f(place);
        });
      });
  } catch (const std::exception& error) {
    fail(RunError(std::string("cannot start a thread: ") + error.what()));
  }
  for (std::thread& thread : threads) thread.join();
}

void NcclWorld::connect(const ncclUniqueId& id, const NcclLimits& limits) {
  for_each_place([&](Place& place) {
    auto made = std::make_unique<NcclConnection>(id, place.rank, world_size_, limits, give_up_);
    {
      const std::lock_guard lock(mutex_);
      place.connection = std::move(made);
    }
    place.connection->settle();
    if (world_size_ > 1) place.greeting = std::make_shared<Greeting>(*place.memory);
  });
  throw_if_failed();
  if (world_size_ > 1) for_each_place([&](Place& place) { greet(place); });
  for (Place& place : places_) place.greeting.reset();
}

void NcclWorld::greet(Place& place) {
  Greeting& its = *place.greeting;
  const int n = world_size_;
  for (int apart = 1; apart < (meets_all_ ? n : 2); ++apart)
    place.connection->send_and_receive(its.sent.data(), Greeting::kBytes, (place.rank + apart) % n,
                                       its.received.data(), Greeting::kBytes,
                                       (place.rank + n - apart) % n, its.stream.get());
  its.done.record(its.stream.get());
  while (!its.done.done()) {
    throw_if_failed();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void NcclWorld::fail(const RunError& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = error;
    failed_at_ns_ = monotonic_ns();
  }
  for (Place& place : places_) {
    NcclConnection* connection = nullptr;
    {
      const std::lock_guard lock(mutex_);
      connection = place.connection.get();
    }
    if (connection != nullptr) connection->abort();
  }
}

void NcclWorld::throw_if_failed() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw *failure_;
  }
  if (failed_elsewhere_) failed_elsewhere_();
}

void NcclWorld::watch() {
  while (!has_ended_) {
    for (Place& place : places_)
      if (const ncclResult_t state = place.connection->async_error(); state != ncclSuccess)
        fail(place.connection->error_of(state, "NCCL"));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void NcclWorld::close() noexcept {
  const auto fails = [this](const RunError& error) { fail(error); };
  bool has_failed = true;
  try {
    throw_if_failed();
    has_failed = false;
  } catch (const std::exception&) {
  }
  for (Place& place : places_) {
    if (place.connection == nullptr) continue;
    if (has_failed) {
      place.connection->abort();
    } else {
      guarded(place.rank, fails, [&] { place.connection->begin_to_close(); });
    }
  }
  if (has_failed) return;
  for (Place& place : places_) guarded(place.rank, fails, [&] { place.connection->close(); });
}

}  // namespace ringscope::cuda
