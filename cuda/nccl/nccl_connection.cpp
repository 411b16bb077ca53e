#include "cuda/nccl/nccl_connection.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace ringscope::cuda {

NcclConnection::NcclConnection(const ncclUniqueId& id, int rank, int world_size,
                               const NcclLimits& limits, const GiveUp& give_up)
    : api_(nccl_or_throw()),
      rank_(rank),
      world_size_(world_size),
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
                                 previous(), next(), limits_.timeout_s),
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

void NcclConnection::send(const void* memory, Index bytes, int to, cudaStream_t stream) {
  if (bytes == 0) return;
  call("ncclSend", [&](const NcclApi& api, ncclComm_t comm) {
    return api.send(memory, static_cast<std::size_t>(bytes), ncclInt8, to, comm, stream);
  });
  settle();
}

void NcclConnection::receive(void* memory, Index bytes, int from, cudaStream_t stream) {
  if (bytes == 0) return;
  call("ncclRecv", [&](const NcclApi& api, ncclComm_t comm) {
    return api.recv(memory, static_cast<std::size_t>(bytes), ncclInt8, from, comm, stream);
  });
  settle();
}

void NcclConnection::remember(void* memory, Index bytes) {
  if (bytes == 0 || api_.comm_register == nullptr || api_.comm_deregister == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr || remembered_.contains(memory)) return;
  void* handle = nullptr;
  const ncclResult_t status =
      api_.comm_register(comm_, memory, static_cast<std::size_t>(bytes), &handle);
  remembered_[memory] = status == ncclSuccess ? handle : nullptr;
}

void NcclConnection::forget() {
  const std::lock_guard lock(mutex_);
  if (comm_ != nullptr)
    for (const auto& [memory, handle] : remembered_)
      if (handle != nullptr) static_cast<void>(api_.comm_deregister(comm_, handle));
  remembered_.clear();
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
  forget();
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

}  // namespace ringscope::cuda
