// Where memory lies: in the host's, or in a device's, which the host reaches only by copies.
#pragma once

#include <cstring>
#include <new>

#include "core/base/math.h"

namespace ringscope {

class MemorySpace {
 public:
  virtual ~MemorySpace() = default;
  // `bytes` > 0, aligned to 64 bytes at least, filled with 0xff: NaN in f32, bf16 and f16 alike, so a
  // value that is read before it was written shows. Throws std::bad_alloc or RunError.
  virtual void* allocate(Index bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // Copies between this space and the host's, and returns when that is done.
  virtual void copy_in(void* to, const void* from_host, Index bytes) = 0;
  virtual void copy_out(void* to_host, const void* from, Index bytes) const = 0;
};

class HostMemory : public MemorySpace {
 public:
  void* allocate(Index bytes) override {
    void* const memory = ::operator new(static_cast<std::size_t>(bytes), kAlignment);
    return std::memset(memory, 0xff, static_cast<std::size_t>(bytes));
  }
  void release(void* memory) noexcept override { ::operator delete(memory, kAlignment); }
  void copy_in(void* to, const void* from_host, Index bytes) override {
    if (bytes > 0) std::memcpy(to, from_host, static_cast<std::size_t>(bytes));
  }
  void copy_out(void* to_host, const void* from, Index bytes) const override {
    if (bytes > 0) std::memcpy(to_host, from, static_cast<std::size_t>(bytes));
  }

 private:
  static constexpr std::align_val_t kAlignment{64};  // a cache line
};

inline HostMemory& host_memory() {
  static HostMemory space;
  return space;
}

}  // namespace ringscope
