#include "cuda/nccl/nccl_world.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/base/buffer.h"
#include "core/trace/recorder.h"
#include "cuda/base/stream.h"

namespace ringscope::cuda {
namespace {

#ifdef RINGSCOPE_MODEL

NcclLibrary open_library() {
#define RINGSCOPE_ADDRESS(member, function) &function,
  static const NcclApi api{RINGSCOPE_NCCL_FUNCTIONS(RINGSCOPE_ADDRESS)};
#undef RINGSCOPE_ADDRESS
  return {&api, "", ""};
}

#else

// The library that belongs to the header of the build; empty when the build found none.
#ifndef RINGSCOPE_NCCL_LIBRARY
#define RINGSCOPE_NCCL_LIBRARY ""
#endif

std::vector<std::string> places() {
  if (const char* const given = std::getenv("RINGSCOPE_NCCL_LIBRARY"); given != nullptr)
    return {given};
  std::vector<std::string> all = {"libnccl.so.2", "libnccl.so"};
  if (*RINGSCOPE_NCCL_LIBRARY != '\0') all.push_back(RINGSCOPE_NCCL_LIBRARY);
  return all;
}

NcclLibrary open_library() {
  // Never closed, because NCCL has threads of its own.
  void* library = nullptr;
  std::string path, error;
  for (const std::string& place : places()) {
    path = place;
    library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (error.empty()) error = dlerror();
  }
  if (library == nullptr)
    return {nullptr, "",
            "NCCL is not found (" + error +
                "); install libnccl2, or set RINGSCOPE_NCCL_LIBRARY to the file libnccl.so.2"};
  static NcclApi api;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)> >(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
#define RINGSCOPE_FIND(member, function) find(api.member, #function);
  RINGSCOPE_NCCL_FUNCTIONS(RINGSCOPE_FIND)
#undef RINGSCOPE_FIND
  if (!missing.empty())
    return {nullptr, path,
            path + " lacks " + missing + "; NCCL 2.14 or later is needed, with nonblocking calls"};
  return {&api, path, ""};
}

#endif

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = open_library();
  return library;
}

const NcclApi& nccl_or_throw() {
  const NcclLibrary& library = nccl_library();
  if (library.api == nullptr) throw RunError("backend nccl: " + library.why_not);
  return *library.api;
}

std::string nccl_version_text(int version) {
  if (version <= 0) return "unknown";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

int nccl_version() {
  int version = 0;
  const NcclApi* const api = nccl_library().api;
  return api != nullptr && api->get_version(&version) == ncclSuccess ? version : 0;
}

NcclError::NcclError(ncclResult_t status, const char* function, const std::string& last_error,
                     int rank, int step)
    : RunError(
          [&] {
            std::string text =
                fmt::format("{}: {}", function, nccl_or_throw().get_error_string(status));
            std::string said = last_error;
            for (char& c : said)
              if (c == '\n') c = ' ';
            while (!said.empty() && said.back() == ' ') said.pop_back();
            return said.empty() ? text : text + " (" + said + ")";
          }(),
          rank, step),
      status_(status) {}

NcclConnection::NcclConnection(const ncclUniqueId& id, int rank, int world_size,
                               const NcclLimits& limits, const GiveUp& give_up)
    : api_(nccl_or_throw()),
      rank_(rank),
      to_((rank + 1) % world_size),
      from_((rank + world_size - 1) % world_size),
      limits_(limits),
      give_up_(give_up) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = limits.max_ctas;
  const ncclResult_t status = api_.comm_init_rank_config(&comm_, world_size, id, rank, &config);
  if (status != ncclSuccess && status != ncclInProgress) {
    const NcclError error = error_of(status, "ncclCommInitRankConfig");
    abort();
    throw error;
  }
}

NcclConnection::~NcclConnection() { abort(); }

NcclError NcclConnection::error_of(ncclResult_t status, const char* function) const {
  const char* const said = api_.get_last_error(nullptr);
  return NcclError(status, function, said == nullptr ? "" : said, rank_);
}

template <class F>
void NcclConnection::call(const char* function, F&& f) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) {  // it was aborted, so the run has failed
    give_up_();
    throw RunError(fmt::format("{}: the communicator is aborted", function), rank_);
  }
  const ncclResult_t status = f(api_, comm_);
  if (status != ncclSuccess && status != ncclInProgress) throw error_of(status, function);
}

ncclResult_t NcclConnection::poll() {
  ncclResult_t state = ncclSuccess;
  call("ncclCommGetAsyncError",
       [&](const NcclApi& api, ncclComm_t comm) { return api.comm_get_async_error(comm, &state); });
  return state;
}

void NcclConnection::settle() {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (int polls = 0;; ++polls) {
    const ncclResult_t state = poll();
    if (state == ncclSuccess) return;
    if (state != ncclInProgress) throw error_of(state, "NCCL");
    give_up_();
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (waited.count() > limits_.timeout_s)
      throw RunError(fmt::format("NCCL has not connected to rank {} and rank {} within {:g} s",
                                 from_, to_, limits_.timeout_s),
                     rank_);
    // Most calls end within microseconds. One that waits for a peer sleeps, so that no core spins.
    if (polls < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(polls < 1000 ? 50 : 1000));
    }
  }
}

void NcclConnection::send_and_receive(const void* send, Index send_bytes, int to, void* recv,
                                      Index recv_bytes, int from, cudaStream_t stream) {
  if (send_bytes == 0 && recv_bytes == 0) return;
  to_ = to;
  from_ = from;
  call("a group of ncclSend and ncclRecv", [&](const NcclApi& api, ncclComm_t comm) {
    // [group
    ncclResult_t status = api.group_start();
    if (status != ncclSuccess) return status;
    if (send_bytes > 0)
      status = api.send(send, static_cast<std::size_t>(send_bytes), ncclInt8, to, comm, stream);
    if (recv_bytes > 0 && status == ncclSuccess)
      status = api.recv(recv, static_cast<std::size_t>(recv_bytes), ncclInt8, from, comm, stream);
    const ncclResult_t ended = api.group_end();  // also after a failure: groups are the thread's
    // group]
    return status == ncclSuccess ? ended : status;
  });
  settle();
}

ncclResult_t NcclConnection::async_error() {
  const std::lock_guard lock(mutex_);
  ncclResult_t state = ncclSuccess;
  if (comm_ == nullptr || is_closing_) return ncclSuccess;
  const ncclResult_t status = api_.comm_get_async_error(comm_, &state);
  if (status != ncclSuccess) return status;
  return state == ncclInProgress ? ncclSuccess : state;
}

void NcclConnection::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_ != nullptr) static_cast<void>(api_.comm_abort(comm_));
  comm_ = nullptr;
}

void NcclConnection::begin_to_close() {
  call("ncclCommFinalize", [&](const NcclApi& api, ncclComm_t comm) {
    is_closing_ = true;
    return api.comm_finalize(comm);
  });
}

void NcclConnection::close() {
  settle();
  call("ncclCommDestroy", [&](const NcclApi& api, ncclComm_t comm) {
    comm_ = nullptr;
    return api.comm_destroy(comm);
  });
}

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
                     const NcclLimits& limits)
    : world_size_(world_size), give_up_([this] { throw_if_failed(); }) {
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
  Event done;
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
  if (world_size_ > 1) for_each_place([&](Place& place) { greet(place, limits.meets_all); });
  for (Place& place : places_) place.greeting.reset();
}

void NcclWorld::greet(Place& place, bool meets_all) {
  Greeting& its = *place.greeting;
  const int n = world_size_;
  for (int apart = 1; apart < (meets_all ? n : 2); ++apart)
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
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
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
