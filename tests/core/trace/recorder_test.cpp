// Recording costs no allocation: every one that this test program makes is counted.
#include "core/trace/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> allocations{0};

// Not inlined, so that the compiler does not see malloc's memory in the hands of operator delete.
[[gnu::noinline]] void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  void* const memory =
      std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void released(void* memory) noexcept { std::free(memory); }
}  // namespace

// All of them: a sanitizer has its own for those that are left out.
void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { released(memory); }
void operator delete[](void* memory) noexcept { released(memory); }
void operator delete(void* memory, std::size_t) noexcept { released(memory); }
void operator delete[](void* memory, std::size_t) noexcept { released(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { released(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { released(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { released(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { released(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { released(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { released(memory); }

namespace ringscope {
namespace {

// The count itself works, or the tests below could not fail.
TEST(Recorder, AllocationsAreCounted) {
  const long before = allocations;
  std::vector<int> values;
  values.reserve(10);
  EXPECT_EQ(allocations - before, 1);
}

TEST(Recorder, KeepsWhatFitsAndCountsTheRest) {
  Recorder recorder(100, 10, 0);
  const long before = allocations;
  for (int i = 0; i < 150; ++i) recorder.record(TraceEvent{.step = i});
  for (int i = 0; i < 12; ++i) recorder.record(SoftmaxSample{.step = i});
  EXPECT_EQ(allocations - before, 0);
  // No implementation reserves more than was asked for, but it may.
  ASSERT_GE(recorder.events().size(), 100u);
  ASSERT_GE(recorder.samples().size(), 10u);
  const std::size_t kept = recorder.events().size() + recorder.samples().size();
  EXPECT_EQ(static_cast<std::size_t>(recorder.dropped()), 162 - kept);
  for (std::size_t i = 0; i < recorder.events().size(); ++i)
    EXPECT_EQ(recorder.events()[i].step, static_cast<int>(i));
  for (std::size_t i = 0; i < recorder.samples().size(); ++i)
    EXPECT_EQ(recorder.samples()[i].step, static_cast<int>(i));
}

TEST(Recorder, NoRoomAtAll) {
  Recorder recorder(0, 0, 0);
  recorder.record(TraceEvent{});
  recorder.record(SoftmaxSample{});
  EXPECT_EQ(recorder.dropped(), 2);
  EXPECT_TRUE(recorder.events().empty());
}

TEST(Recorder, TimesCountFromTheOrigin) {
  const std::int64_t origin = monotonic_ns();
  const Recorder recorder(1, 1, origin);
  const std::int64_t before = monotonic_ns() - origin, now = recorder.now_ns();
  EXPECT_EQ(recorder.origin_ns(), origin);
  EXPECT_LE(before, now);
  EXPECT_LE(now, monotonic_ns() - origin);
}

}  // namespace
}  // namespace ringscope
