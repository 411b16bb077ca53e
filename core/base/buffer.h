// Where memory lies: in the host's, or in a device's, which the host reaches only by copies. A
// Buffer (below) takes memory from either, and a MemoryMeter counts it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "core/base/math.h"

namespace ringscope {

class MemorySpace {
 public:
  virtual ~MemorySpace() = default;
  // Return `bytes` > 0 bytes, aligned to at least 64 and filled with 0xff. That is NaN in f32, bf16
  // and f16, so a read before the first write shows. Throw std::bad_alloc or RunError.
  virtual void* allocate(Index bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // Copy between this space and the host's memory, and return when the copy is done.
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

// Gives addresses that nobody may read, for code that only asks where things would be.
class NoMemory : public MemorySpace {
 public:
  void* allocate(Index) override { return this; }
  void release(void*) noexcept override {}
  void copy_in(void*, const void*, Index) override {}
  void copy_out(void*, const void*, Index) const override {}
};

// ---
// Memory that is counted. Every buffer that a rank holds during a run is tied to that rank's
// MemoryMeter, so a run can report its measured peak beside the predicted bytes.

// Counts the bytes that its buffers hold now and held at most, and names the space that they lie
// in. It is thread-safe.
class MemoryMeter {
 public:
  // `space` must outlive the meter and its buffers.
  explicit MemoryMeter(MemorySpace& space = host_memory()) : space_(space) {}

  MemorySpace& space() { return space_; }
  void add(Index bytes) {
    const Index now = current_.fetch_add(bytes) + bytes;
    Index peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void remove(Index bytes) { current_.fetch_sub(bytes); }
  Index current_bytes() const { return current_.load(); }
  Index peak_bytes() const { return peak_.load(); }

 private:
  MemorySpace& space_;
  std::atomic<Index> current_{0};
  std::atomic<Index> peak_{0};
};

// A fixed-size array, at first filled with 0xff bytes. Its elements can be touched only if it lies
// in the host's memory. The constructor throws std::bad_alloc and what the space throws.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  // A null `meter` means uncounted host memory; any other must outlive the buffer.
  Buffer(MemoryMeter* meter, Index size) : meter_(meter), size_(size) {
    if (size < 0 || size > PTRDIFF_MAX / static_cast<Index>(sizeof(T))) throw std::bad_alloc();
    if (size == 0) return;
    data_ = static_cast<T*>(space().allocate(bytes()));
    if (meter_ != nullptr) meter_->add(bytes());
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ == nullptr) return;
    space().release(data_);
    if (meter_ != nullptr) meter_->remove(bytes());
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  Index size() const { return size_; }
  Index bytes() const { return size_ * static_cast<Index>(sizeof(T)); }
  T& operator[](Index i) { return data_[i]; }
  const T& operator[](Index i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  void fill(T value) {
    for (T& x : *this) x = value;
  }

 private:
  MemorySpace& space() { return meter_ != nullptr ? meter_->space() : host_memory(); }
  void swap(Buffer& other) noexcept {
    std::swap(meter_, other.meter_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  MemoryMeter* meter_ = nullptr;
  T* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace ringscope
