// One rank's NCCL communicator, in nonblocking mode. A call returns while NCCL still works on it.
// The communicator's state is then polled until it is done or has failed, or the run has failed
// elsewhere. NCCL offers this, and an abort by other threads, instead of a timeout: a kernel that
// waits for a lost peer waits for ever, and so does everything behind it.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "core/base/math.h"
#include "cuda/nccl/nccl_api.h"

namespace ringscope::cuda {

// Throws when waiting has become pointless because the run has failed.
using GiveUp = std::function<void()>;

struct NcclLimits {
  // The most multiprocessors that a transfer's kernel takes.
  int max_ctas = 4;
  // A call in progress for this long has failed. A call waits for its peers' calls at most.
  double timeout_s = 60;
  // Connect each rank with all others before the first hop, not with its neighbours alone.
  bool meets_all = false;
};

// Thread-safe. Calls of its rank's thread and of other threads run one after the other.
class NcclConnection {
 public:
  // Begin to connect on the thread's GPU; settle() completes it. `give_up` must outlive the
  // connection. Throws NcclError.
  NcclConnection(const ncclUniqueId& id, int rank, int world_size, const NcclLimits& limits,
                 const GiveUp& give_up);
  // Abort, unless the connection was closed.
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Wait until NCCL is done with the last call. Throws NcclError, what give_up throws, and RunError
  // when the timeout expires.
  void settle();

  // Enqueue both halves of a hop as one operation on `stream`, so neither waits for the other's
  // end: a send to rank `to` and a receive from rank `from`. Both sides leave out halves of 0 bytes. The call has settled when it returns.
  void send_and_receive(const void* send, Index send_bytes, int to, void* recv, Index recv_bytes,
                        int from, cudaStream_t stream);
  // Enqueue one half alone, as a group of its own.
  void send(const void* memory, Index bytes, int to, cudaStream_t stream);
  void receive(void* memory, Index bytes, int from, cudaStream_t stream);

  // Let NCCL reach the memory directly where it can; elsewhere do nothing. Registers each address
  // once, until forget() or an abort.
  void remember(void* memory, Index bytes);
  void forget();

  // Return an error that NCCL met by itself (such as a lost peer), or ncclSuccess.
  ncclResult_t async_error();
  NcclError error_of(ncclResult_t status, const char* function) const;

  // End all its work on the GPU, and itself. Any thread may call it any number of times.
  void abort() noexcept;
  // Close in two calls. Every connection of a process makes the first call before any makes the
  // second, because they wait for each other.
  void begin_to_close();
  void close();

 private:
  ncclResult_t poll();
  // Call f(api, comm) under the lock. Throws when it fails.
  template <class F>
  void call(const char* function, F&& f);
  int next() const { return (rank_ + 1) % world_size_; }
  int previous() const { return (rank_ + world_size_ - 1) % world_size_; }

  const NcclApi& api_;
  int rank_, world_size_;
  NcclLimits limits_;
  const GiveUp& give_up_;

  std::mutex mutex_;           // guards everything below; calls on one communicator take turns
  ncclComm_t comm_ = nullptr;  // null after its end
  bool is_closing_ = false;
  std::map<void*, void*> remembered_;  // handle by address
};

}  // namespace ringscope::cuda
