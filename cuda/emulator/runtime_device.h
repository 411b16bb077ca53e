// The model's devices: their memory, streams and events, and the loop that runs what is queued.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/emulator/random.h"

namespace ringscope::cuda::model {

// Shared memory that a block may have by default, and when cudaFuncSetAttribute allows it.
inline constexpr int default_shared_bytes = 48 * 1024;
inline constexpr int max_shared_bytes = 227 * 1024;

// The end of an operation.
struct Marker {
  bool done = false;
  long long nanoseconds = 0;  // time of the end
};
using MarkerPtr = std::shared_ptr<Marker>;

// Addresses that an operation reads or writes, or may.
struct Range {
  std::uintptr_t begin;
  std::size_t bytes;
};

struct Operation {
  const char* name = "";
  std::function<void()> run;  // may be empty
  std::vector<MarkerPtr> after;
  std::vector<Range> names;
  bool is_kernel = false;
  MarkerPtr done;
};

struct Stream {
  int device = 0;
  bool destroyed = false;  // no more operations; queued ones go on
  bool busy = false;       // whether its head is being run
  std::deque<Operation> queue;
  MarkerPtr last;  // of the operation queued last; null before any
};

struct Event {
  int device = 0;
  bool timing = true;
  MarkerPtr record;  // null before the first record
};

enum class MemoryKind { device, pinned };

class Allocation {
 public:
  Allocation(MemoryKind kind, int device, std::size_t bytes);
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();

  MemoryKind kind() const { return kind_; }
  int device() const { return device_; }  // meaningless for pinned memory
  std::size_t bytes() const { return bytes_; }
  unsigned char* data() const { return data_; }
  // Whether the bytes just behind the allocation are unchanged.
  bool guard_intact() const;
  void restore_guard();

 private:
  MemoryKind kind_;
  int device_;
  std::size_t bytes_;
  unsigned char* data_;
};

// Calls that a test wants to fail. Status{} is success.
template <class Status>
class InjectedFailures {
 public:
  // Make the nth next call of `name` (1: the next) return `status`.
  void add(const std::string& name, int nth, Status status) { all_.push_back({name, nth, status}); }
  // Return the status of this call of `name`.
  Status take(std::string_view name) {
    for (auto failure = all_.begin(); failure != all_.end(); ++failure) {
      if (failure->name != name || --failure->remaining > 0) continue;
      const Status status = failure->status;
      all_.erase(failure);
      return status;
    }
    return Status{};
  }

 private:
  struct Failure {
    std::string name;
    int remaining;
    Status status;
  };
  std::vector<Failure> all_;
};

class Device {
 public:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::size_t default_memory = std::size_t{8} << 30;
  static constexpr int max_devices = 64;

  static Device& instance();
  // Return the calling thread's device, as cudaSetDevice set it.
  static int& current();

  std::mutex mutex;  // guards everything here; not held while an operation runs

  // Queue an operation. `stream` must be known.
  MarkerPtr enqueue(cudaStream_t stream, Operation operation);
  // Run operations, or wait for threads that do, until `marker` is done. Null means no wait.
  void wait_for(Lock& lock, const MarkerPtr& marker);
  // Run one operation, if one is ready.
  bool run_one(Lock& lock);
  // Return a marker that no stream reaches; code outside opens it. While a gate is closed, a thread
  // that waits for something behind it sleeps instead of reporting a deadlock.
  MarkerPtr make_gate();
  void open(const MarkerPtr& gate);
  // Return what the handle stands for (null stream: the current device's default stream), or null
  // when it is destroyed or foreign.
  Stream* stream(cudaStream_t handle);
  Event* event(cudaEvent_t handle);
  std::uintptr_t new_handle() { return next_handle_ += 64; }
  // Return the allocation that holds the address, or null.
  const Allocation* allocation_at(const void* address) const;
  // Return the name of a queued or running operation that names the allocation, or null.
  const char* user_of(const Allocation& allocation) const;
  // Note why a call fails, and return its status.
  cudaError_t refuse(cudaError_t status, const std::string& why);
  // Make `status` sticky and drop what is queued.
  void break_down(cudaError_t status, const std::string& why);
  void set_seed(std::uint64_t seed);
  void reset(Lock& lock);

  // By handle; no handle is used twice. Handles below max_devices are the devices' default streams,
  // which are made when first named.
  std::map<std::uintptr_t, Stream> streams;
  std::map<std::uintptr_t, Event> events;
  std::map<std::uintptr_t, std::unique_ptr<Allocation>> allocations;  // by address
  std::map<const void*, int> shared_limits;  // by kernel, as cudaFuncSetAttribute set them
  std::size_t bytes_used = 0;                // by all devices
  std::size_t memory_limit = default_memory;
  int block_shared_bytes = max_shared_bytes;  // that cudaFuncSetAttribute may allow
  int device_count = 1;
  std::set<std::pair<int, int>> peers;  // (device, device whose memory it may reach)
  cudaError_t broken = cudaSuccess;
  std::string fault;
  InjectedFailures<cudaError_t> failures;

 private:
  Device() = default;
  std::uintptr_t choose();
  bool any_busy() const;
  long long now();
  void check_guards();

  std::condition_variable changed_;
  Random random_{1};
  std::uintptr_t next_handle_ = 0;
  std::uintptr_t favourite_ = 0;  // stream that runs on while it can
  std::size_t favoured_for_ = 0;  // number of operations
  long long last_time_ = 0;
  int closed_gates_ = 0;
};

// Run a call of the API: `body(device, lock)` under the lock, unless the call fails before. With
// `always`, the body runs on a broken device too.
cudaError_t call(const char* name, bool always,
                 const std::function<cudaError_t(Device&, Device::Lock&)>& body);

// Make `status` this thread's last error, if it is one, and return it.
cudaError_t note_error(cudaError_t status);

}  // namespace ringscope::cuda::model
