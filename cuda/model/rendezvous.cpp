// The places where the threads of a block wait for each other.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "cuda/model/block.h"

namespace ringscope::cuda::model {
namespace {

constexpr std::size_t max_exchange_bytes = 512;

}  // namespace

void Block::barrier(int id, int threads, bool wait) {
  if (unwinding()) return;
  const bool sensible = 0 <= id && id < 16 && 0 < threads && threads <= threads_count_ &&
                        (threads % 32 == 0 || threads == threads_count_);
  if (!sensible)
    throw ModelError(
        fmt::format("barrier {} of {} threads in a block of {}: there are barriers 0 to "
                    "15, of whole warps of the block",
                    id, threads, threads_count_));
  Barrier& barrier = barriers_[id];
  if (barrier.arrived == 0) barrier.expected = threads;
  if (barrier.expected != threads)
    throw ModelError(fmt::format("comes to barrier {} of {} threads, others to one of {}", id,
                                 threads, barrier.expected));
  if (++barrier.arrived == barrier.expected) {
    barrier.arrived = 0;
    for (int thread : barrier.waiting) release(thread);
    barrier.waiting.clear();
    return;
  }
  if (!wait) return;
  barrier.waiting.push_back(current_);
  threads_[current_].barrier = id;
  suspend_for(Wait::barrier);
}

Block::Group& Block::group_of(int first, int size, unsigned mask) {
  auto& groups = groups_[first / 32];
  for (const auto& group : groups)
    if (group->size == size && group->mask == mask) return *group;
  groups.push_back(std::make_unique<Group>());
  Group& group = *groups.back();
  group.first = first;
  group.size = size;
  group.mask = mask;
  for (auto& buffer : group.buffers) buffer.resize(size * max_exchange_bytes);
  return group;
}

const unsigned char* Block::exchange(const char* kind, const void* mine, std::size_t bytes,
                                     int size, unsigned mask) {
  const int first = current_ / size * size;
  Group& group = group_of(first, size, mask);
  if (unwinding()) return group.buffers[0].data();
  if (bytes > max_exchange_bytes)
    throw ModelError(fmt::format("{}: {} bytes a thread, at most {} can be exchanged", kind, bytes,
                                 max_exchange_bytes));
  if (!group.has(current_))
    throw ModelError(
        fmt::format("{}: lane {} is not in its mask {:08x}", kind, current_ - first, mask));
  if (group.arrived.empty()) {
    const int members = size == 32 ? 32 - std::countl_zero(mask) : size;
    if (first + members > threads_count_)
      throw ModelError(fmt::format("{}: the block's last {} has {} threads only", kind,
                                   size == 32 ? "warp" : "warpgroup", threads_count_ - first));
    for (int thread = first; thread < first + members; ++thread) {
      if (group.has(thread) && threads_[thread].ended)
        throw ModelError(fmt::format("{}: waits for thread {}, which has ended", kind, thread));
    }
    group.kind = kind;
    group.bytes = bytes;
    // What a lane outside the mask would have given is undefined.
    if (size == 32 && mask != ~0u) std::memset(group.buffers[group.turn].data(), 0xff, 32 * bytes);
  }
  if (std::strcmp(group.kind, kind) != 0 || group.bytes != bytes)
    throw ModelError(
        fmt::format("{} of {} bytes, while {} other threads of the {} are at {} of {} "
                    "bytes",
                    kind, bytes, group.arrived.size(), size == 32 ? "warp" : "warpgroup",
                    group.kind, group.bytes));
  unsigned char* data = group.buffers[group.turn].data();
  if (bytes > 0) std::memcpy(data + (current_ - first) * bytes, mine, bytes);
  group.arrived.push_back(current_);
  const int expected = size == 32 ? std::popcount(mask) : size;
  if (static_cast<int>(group.arrived.size()) == expected) {
    for (int thread : group.arrived)
      if (thread != current_) release(thread);
    group.arrived.clear();
    group.turn ^= 1;
  } else {
    threads_[current_].group = &group;
    suspend_for(Wait::exchange);
  }
  return data;
}

void Block::wait_until(const char* what, const std::function<bool()>& ready) {
  if (unwinding() || ready()) return;
  threads_[current_].what = what;
  threads_[current_].ready = &ready;
  conditional_.insert(threads_[current_].position);
  suspend_for(Wait::condition);
}

}  // namespace ringscope::cuda::model
