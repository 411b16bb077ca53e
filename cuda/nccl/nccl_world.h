// NCCL: its functions, the connection of one rank, and those of all ranks of this process, one
// per GPU and thread, or a single one when every rank is a process. A failure on any of them ends all.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/math.h"
#include "cuda/base/device_memory.h"
#include "cuda/ring/run_on_gpu.h"

namespace ringscope::cuda {

// ---
// Loads NCCL as a table of functions when a program first needs it, because most machines lack NCCL
// and the same program must run there too. A failed call becomes an exception that says what failed
// and what NCCL calls it. Callers add rank and step (core/ring/ring.h).

// The functions that every NCCL of 2.14 or later has: FORM(member, function).
#define RINGSCOPE_NCCL_FUNCTIONS(FORM)                \
  FORM(get_version, ncclGetVersion)                   \
  FORM(get_unique_id, ncclGetUniqueId)                \
  FORM(comm_init_rank_config, ncclCommInitRankConfig) \
  FORM(comm_finalize, ncclCommFinalize)               \
  FORM(comm_destroy, ncclCommDestroy)                 \
  FORM(comm_abort, ncclCommAbort)                     \
  FORM(comm_get_async_error, ncclCommGetAsyncError)   \
  FORM(get_error_string, ncclGetErrorString)          \
  FORM(get_last_error, ncclGetLastError)              \
  FORM(send, ncclSend)                                \
  FORM(recv, ncclRecv)                                \
  FORM(group_start, ncclGroupStart)                   \
  FORM(group_end, ncclGroupEnd)

// Members have NCCL's names without "nccl".
struct NcclApi {
#define RINGSCOPE_MEMBER(member, function) decltype(&::function) member = nullptr;
  RINGSCOPE_NCCL_FUNCTIONS(RINGSCOPE_MEMBER)
#undef RINGSCOPE_MEMBER
};

struct NcclLibrary {
  const NcclApi* api = nullptr;
  std::string path;     // where the library was found; empty when it is linked
  std::string why_not;  // one line when there is no library
};

// Look for NCCL once: in the file RINGSCOPE_NCCL_LIBRARY when that is set, else as libnccl.so.2
// where the system looks, else in the library of the build's header. Thread-safe, never throws.
const NcclLibrary& nccl_library();

// Throw RunError when NCCL is missing.
const NcclApi& nccl_or_throw();

// Return, for example, "2.28.9", or "unknown" for 0.
std::string nccl_version_text(int version);
// Return the library's version in the form of NCCL_VERSION.
int nccl_version();

// A RunError whose text is "FUNCTION: MESSAGE (what NCCL says of the last error)".
class NcclError : public RunError {
 public:
  NcclError(ncclResult_t status, const char* function, const std::string& last_error, int rank = -1,
            int step = -1);
  ncclResult_t status() const { return status_; }

 private:
  ncclResult_t status_;
};

// ---
// One rank's NCCL communicator, in nonblocking mode. A call returns while NCCL still works on it.
// The communicator's state is then polled until it is done or has failed, or the run has failed
// elsewhere. NCCL offers this, and an abort by other threads, instead of a timeout: a kernel that
// waits for a lost peer waits for ever, and so does everything behind it.

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

  // Wait until NCCL is done with the last call. Throws NcclError, what give_up throws, and RunError
  // when the timeout expires.
  void settle();

  // Enqueue both halves of a hop as one operation on `stream`, so neither waits for the other's
  // end: a send to rank `to` and a receive from rank `from`. Both sides leave out halves of 0 bytes,
  // so one half alone is a group of its own. The call has settled when it returns.
  void send_and_receive(const void* send, Index send_bytes, int to, void* recv, Index recv_bytes,
                        int from, cudaStream_t stream);

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

  const NcclApi& api_;
  int rank_;
  int to_, from_;  // the peers of the last call
  NcclLimits limits_;
  const GiveUp& give_up_;

  std::mutex mutex_;           // guards everything below; calls on one communicator take turns
  ncclComm_t comm_ = nullptr;  // null after its end
  bool is_closing_ = false;
};

// ---
// All connections of this process.

class NcclWorld {
 public:
  // Connect, with a first small hop because NCCL sets up a channel on first use. Throws RunError.
  NcclWorld(const ncclUniqueId& id, int world_size, const std::vector<RankSeat>& seats,
            const NcclLimits& limits);
  // Close in good order, or abort after a failure.
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  int world_size() const { return world_size_; }
  NcclConnection& connection(int rank) { return *at(rank).connection; }
  int device_of(int rank) { return at(rank).device; }
  MemorySpace& memory_of(int rank) { return *at(rank).memory; }

  // End every wait of every rank of this process with `error` by aborting all connections. Only the
  // first call counts. Thread-safe.
  void fail(const RunError& error);
  // Throw the RunError that fail() was called with, if there is one.
  void throw_if_failed();
  // Return the monotonic time of the first failure, or the largest number when there is none. What
  // ends on a GPU after it may have been aborted.
  std::int64_t failed_at_ns() const { return failed_at_ns_; }

 private:
  struct Greeting;
  struct Place {
    int rank = 0, device = 0;
    std::unique_ptr<MemoryOfDevice> memory;
    std::unique_ptr<NcclConnection> connection;
    std::shared_ptr<Greeting> greeting = nullptr;  // only during connect()
  };
  Place& at(int rank);
  void connect(const ncclUniqueId& id, const NcclLimits& limits);
  // Call f(place) on a thread for each place, because ranks wait for each other.
  template <class F>
  void for_each_place(F&& f);
  void greet(Place& place, bool meets_all);
  // Look for errors that NCCL meets by itself while the ranks' threads wait for their GPUs.
  void watch();
  void close() noexcept;

  int world_size_;
  GiveUp give_up_;
  std::vector<Place> places_;
  std::mutex mutex_;  // guards failure_ and the places' connections
  std::optional<RunError> failure_;
  std::atomic<std::int64_t> failed_at_ns_ = std::numeric_limits<std::int64_t>::max();
  std::atomic<bool> has_ended_ = false;
  std::thread watcher_;
};

// Throws RunError.
ncclUniqueId new_nccl_id();

}  // namespace ringscope::cuda
