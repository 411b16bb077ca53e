// One rank's NCCL communicator, never blocking: a call returns while NCCL still works on it, and the
// communicator's state is polled until it is done, has failed, or the run has failed elsewhere. That,
// and that others may abort it, is what NCCL offers instead of a timeout: a kernel that waits for a
// peer that is gone waits for ever, and so does everything behind it.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "core/base/math.h"
#include "cuda/nccl/nccl_api.h"

namespace ringscope::cuda {

// Throws when there is no point in waiting any longer: the run has failed.
using GiveUp = std::function<void()>;

struct NcclLimits {
  // A transfer's kernel takes so many multiprocessors at most.
  int max_ctas = 4;
  // A call that is in progress for so long has failed; calls wait for the peers' calls at most.
  double timeout_s = 60;
};

// Thread-safe; what its rank's thread does and what others do to it come one after the other.
class NcclConnection {
 public:
  // Begins to connect, on the thread's GPU; settle() ends it. `give_up` must outlive it. Throws
  // NcclError.
  NcclConnection(const ncclUniqueId& id, int rank, int world_size, const NcclLimits& limits,
                 const GiveUp& give_up);
  // Aborts, unless it was closed.
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Returns when NCCL is done with the last call. Throws NcclError, what give_up throws, and RunError
  // when the time is over.
  void settle();

  // The two halves of a hop as one operation on `stream`: neither waits for the other's end. Halves
  // of 0 bytes are left out, on both sides alike. Settled when they return.
  void send_and_receive(const void* send, Index send_bytes, void* recv, Index recv_bytes,
                        cudaStream_t stream);
  // Alone, and so as a group of its own.
  void send(const void* from, Index bytes, cudaStream_t stream);
  void receive(void* to, Index bytes, cudaStream_t stream);

  // Lets NCCL reach the memory directly where it can; does nothing where it cannot. Once for each
  // address; it is let go of by forget() or an abort.
  void remember(void* memory, Index bytes);
  void forget();

  // An error that NCCL met by itself (a lost peer, say); ncclSuccess when there is none.
  ncclResult_t async_error();
  NcclError error_of(ncclResult_t status, const char* function) const;

  // Ends everything that it has under way on the GPU, and itself. Any thread, any number of times.
  void abort() noexcept;
  // The orderly end, in two calls: every connection of a process takes the first before any takes
  // the second, because they wait for each other.
  void begin_to_close();
  void close();

 private:
  ncclResult_t poll();
  // f(api, comm) under the lock; throws when it fails.
  template <class F>
  void call(const char* function, F&& f);
  int next() const { return (rank_ + 1) % world_size_; }
  int previous() const { return (rank_ + world_size_ - 1) % world_size_; }

  const NcclApi& api_;
  int rank_, world_size_;
  NcclLimits limits_;
  const GiveUp& give_up_;

  std::mutex mutex_;  // guards everything below; NCCL's calls on one communicator take turns
  ncclComm_t comm_ = nullptr;  // null after its end
  bool is_closing_ = false;
  std::map<void*, void*> remembered_;  // address: handle
};

}  // namespace ringscope::cuda
