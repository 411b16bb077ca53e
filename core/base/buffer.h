// Memory that is accounted for. Every buffer that a rank holds during a run is a Buffer tied to
// that rank's MemoryMeter, so a run can report its measured peak beside the bill that the formulas
// predict.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "core/base/math.h"

namespace ringscope {

// Bytes held now and at most, by everything that was allocated under this meter. Thread-safe.
class MemoryMeter {
 public:
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
  std::atomic<Index> current_{0};
  std::atomic<Index> peak_{0};
};

// A fixed-size array, aligned to a cache line. Starts filled with 0xff bytes, which is NaN in f32,
// bf16 and f16 alike, so a value that is read before it was written shows. Throws std::bad_alloc.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr std::align_val_t kAlignment{64};

  Buffer() = default;
  // `meter` may be null (not accounted for) and must otherwise outlive the buffer.
  Buffer(MemoryMeter* meter, Index size) : meter_(meter), size_(size) {
    if (size < 0 || size > PTRDIFF_MAX / static_cast<Index>(sizeof(T))) throw std::bad_alloc();
    if (size == 0) return;
    data_ = static_cast<T*>(::operator new(static_cast<std::size_t>(bytes()), kAlignment));
    std::memset(static_cast<void*>(data_), 0xff, static_cast<std::size_t>(bytes()));
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
    ::operator delete(data_, kAlignment);
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
