#include "cuda/emulator/block.h"

#include <fmt/format.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <numeric>

namespace ringscope::cuda::model {

namespace {

// Each mapping has a page that faults on overflow, then a stack. Those that are given back serve the
// fibers of other OS threads, because short grids would spend much of their time on mapping them anew.
class Stacks {
 public:
  unsigned char* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        unsigned char* const mapping = free_.back();
        free_.pop_back();
        return mapping;
      }
    }
    void* const mapping = mmap(nullptr, page_ + Fiber::stack_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    mprotect(mapping, page_, PROT_NONE);
    return static_cast<unsigned char*>(mapping);
  }
  void give_back(unsigned char* mapping) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMostFree)
      free_.push_back(mapping);
    else
      munmap(mapping, page_ + Fiber::stack_bytes);
  }
  std::size_t page() const { return page_; }

 private:
  static constexpr std::size_t kMostFree = 4096;
  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::mutex mutex_;
  std::vector<unsigned char*> free_;
};

// They are never destroyed, because OS threads may end after static objects do.
Stacks& stacks() {
  static Stacks& all = *new Stacks;
  return all;
}

}  // namespace

struct Fiber::State {
  unsigned char* mapping = nullptr;
  bool started = false;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
  ucontext_t first_entry;
  jmp_buf inside, outside;
};

Fiber::Fiber() : state_(std::make_unique<State>()) { state_->mapping = stacks().take(); }

Fiber::~Fiber() { stacks().give_back(state_->mapping); }

void Fiber::set_body(void (*body)(void*), void* argument) {
  state_->body = body;
  state_->argument = argument;
}

// makecontext passes only ints, so the pointer comes in two halves.
void Fiber::entry(unsigned high, unsigned low) {
  auto* fiber = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low);
  State& state = *fiber->state_;
  for (;;) {
    state.body(state.argument);
    fiber->suspend();
  }
}

void Fiber::start() {
  State& state = *state_;
  state.started = true;
  getcontext(&state.first_entry);
  state.first_entry.uc_stack.ss_sp = state.mapping + stacks().page();
  state.first_entry.uc_stack.ss_size = stack_bytes;
  state.first_entry.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&state.first_entry, reinterpret_cast<void (*)()>(&Fiber::entry), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

// The context calls ask the kernel about signals, so they serve only for the first entry.
void Fiber::resume() {
  State& state = *state_;
  if (_setjmp(state.outside) == 0) {
    if (state.started) _longjmp(state.inside, 1);
    start();
    setcontext(&state.first_entry);
  }
}

void Fiber::suspend() {
  if (_setjmp(state_->inside) == 0) _longjmp(state_->outside, 1);
}

namespace {

constexpr std::size_t shared_alignment = 1024;
constexpr std::size_t guard_bytes = 1024;  // before and after shared memory
constexpr unsigned char guard = 0xa5;
constexpr unsigned char poison = 0xff;
constexpr std::size_t max_exchange_bytes = 512;

// Thrown into threads that must end because another one failed.
struct Cancelled {};

// Return this OS thread's fibers for a block, which grids use one after another.
std::vector<std::unique_ptr<Fiber>>& fibers_at(std::size_t place) {
  static thread_local std::deque<std::vector<std::unique_ptr<Fiber>>> pools;
  while (pools.size() <= place) pools.emplace_back();
  return pools[place];
}

}  // namespace

void NumberSet::resize(int limit) { words_.assign((limit + 63) / 64, 0); }

int NumberSet::next(int n) const {
  const int count = static_cast<int>(words_.size());
  for (int word = n / 64; word < count; ++word) {
    std::uint64_t bits = words_[word];
    if (word == n / 64) bits &= ~std::uint64_t{0} << (n % 64);
    if (bits != 0) return word * 64 + std::countr_zero(bits);
  }
  return -1;
}

Block::Block(dim3 block, std::size_t shared_bytes, const Schedule& schedule,
             const std::function<void()>& kernel, std::size_t place, Clocks& clocks)
    : kernel_(kernel),
      schedule_(schedule),
      shape_(block),
      threads_count_(static_cast<int>(block.x * block.y * block.z)),
      shared_size_(shared_bytes),
      shared_room_((shared_bytes + shared_alignment - 1) / shared_alignment * shared_alignment +
                   2 * guard_bytes),
      clocks_(clocks),
      fibers_(fibers_at(place)) {
  shared_storage_.resize(shared_room_ + shared_alignment);
  const auto start = reinterpret_cast<std::uintptr_t>(shared_storage_.data()) + guard_bytes;
  const std::uintptr_t aligned =
      (start + shared_alignment - 1) / shared_alignment * shared_alignment;
  shared_ = shared_storage_.data() + guard_bytes + (aligned - start);
  threads_.resize(threads_count_);
  groups_.resize((threads_count_ + 31) / 32);
  at_position_.resize(threads_count_);
  while (static_cast<int>(fibers_.size()) < threads_count_)
    fibers_.push_back(std::make_unique<Fiber>());
}

bool Block::run(std::uint64_t most) {
  std::uint64_t times = 0;
  while (times < most && living_ > 0) {
    const int thread = pick();
    if (thread < 0) break;
    ++times;
    ++clocks_[multiprocessor_];
    resume(thread);
    if (threads_[thread].ended) end_thread(thread);
    if (failure_) std::rethrow_exception(failure_);
  }
  return times > 0;
}

void Block::end() {
  while (perform_deferred()) {
  }
  check_guard();
}

void Block::begin(uint3 index, std::uint64_t number) {
  index_ = index;
  multiprocessor_ = static_cast<int>(number % kMultiprocessors);
  random_ = Random(schedule_.seed * 0x2545f4914f6cdd1d + number);
  random_();
  std::fill(shared_storage_.begin(), shared_storage_.end(), guard);
  std::fill_n(shared_, shared_size_, poison);
  for (int thread = 0; thread < threads_count_; ++thread) {
    threads_[thread] = Thread{};
    const auto n = static_cast<unsigned>(thread);
    threads_[thread].index = {n % shape_.x, n / shape_.x % shape_.y, n / shape_.x / shape_.y};
    fibers_[thread]->set_body(&Block::thread_body, this);
  }
  barriers_.fill({});
  runnable_.resize(threads_count_);
  conditional_.resize(threads_count_);
  living_ = threads_count_;
  exceptions_outside_ = std::uncaught_exceptions();
  std::iota(at_position_.begin(), at_position_.end(), 0);
  if (schedule_.order == ThreadOrder::descending)
    std::reverse(at_position_.begin(), at_position_.end());
  for (int position = 0; position < threads_count_; ++position) {
    threads_[at_position_[position]].position = position;
    runnable_.insert(position);
  }
  picks_until_draw_ = 0;
}

// Draw a random order of the warps, and of the lanes in each.
void Block::draw_positions() {
  std::vector<int> warps((threads_count_ + 31) / 32);
  std::iota(warps.begin(), warps.end(), 0);
  const auto shuffle = [this](auto first, auto last) {
    for (auto n = last - first; n > 1; --n) std::swap(first[n - 1], first[random_.below(n)]);
  };
  shuffle(warps.begin(), warps.end());
  const NumberSet runnable = runnable_, conditional = conditional_;
  runnable_.resize(threads_count_);
  conditional_.resize(threads_count_);
  int position = 0;
  for (int warp : warps) {
    const int begin = warp * 32, end = std::min(begin + 32, threads_count_);
    std::array<int, 32> lanes;
    std::iota(lanes.begin(), lanes.end(), begin);
    shuffle(lanes.begin(), lanes.begin() + (end - begin));
    for (int i = 0; i < end - begin; ++i, ++position) {
      at_position_[position] = lanes[i];
      Thread& thread = threads_[lanes[i]];
      if (runnable.contains(thread.position)) runnable_.insert(position);
      if (conditional.contains(thread.position)) conditional_.insert(position);
      thread.position = position;
    }
  }
  picks_until_draw_ = 1 + random_.below(4 * threads_count_);
}

// Return the first thread in order that can run or whose condition has become true, or -1.
int Block::pick() {
  if (schedule_.order == ThreadOrder::shuffled && picks_until_draw_-- == 0) draw_positions();
  // A condition may do things that make an earlier one true, so ask all of them twice.
  for (int asked_in_vain = 0; asked_in_vain < 2; ++asked_in_vain) {
    const int first = runnable_.next(0);
    const Thread* in_vain = nullptr;  // the last one that was asked
    for (int p = conditional_.next(0); p >= 0 && (first < 0 || p < first);
         p = conditional_.next(p + 1)) {
      const int number = at_position_[p];
      const Thread& thread = threads_[number];
      if (in_vain && thread.object && thread.object == in_vain->object &&
          thread.what == in_vain->what)
        continue;
      if (ask(number)) {
        release(number);
        return number;
      }
      in_vain = &thread;
    }
    if (first >= 0) return at_position_[first];
    if (asked_in_vain == 1 && perform_deferred()) asked_in_vain = -1;
  }
  return -1;
}

void Block::switch_to(int thread) {
  current_ = thread;
  threadIdx = threads_[thread].index;
  blockIdx = index_;
}

bool Block::ask(int thread) {
  switch_to(thread);
  return (*threads_[thread].ready)();
}

void Block::defer(std::function<void()> effect) {
  if (!schedule_.async_late) return effect();
  deferred_.push_back({current_, std::move(effect)});
}

bool Block::perform_deferred() {
  if (deferred_.empty()) return false;
  const std::size_t which =
      schedule_.order == ThreadOrder::shuffled ? random_.below(deferred_.size()) : 0;
  const Deferred deferred = std::move(deferred_[which]);
  deferred_.erase(deferred_.begin() + static_cast<std::ptrdiff_t>(which));
  switch_to(deferred.thread);
  deferred.effect();
  return true;
}

void Block::resume(int thread) {
  switch_to(thread);
  fibers_[thread]->resume();
}

void Block::thread_body(void* block) {
  Block& self = *static_cast<Block*>(block);
  const int thread = self.current_;
  try {
    if (!self.cancelling_) {
      self.kernel_();
      if (self.thread_state()) self.thread_state()->end();
    }
  } catch (const Cancelled&) {
  } catch (const ModelError& error) {
    if (!self.failure_)
      self.failure_ = std::make_exception_ptr(ModelError(self.place(thread) + error.what()));
  } catch (...) {
    if (!self.failure_) self.failure_ = std::current_exception();
  }
  self.threads_[thread].ended = true;
}

// Let others run until this thread is released.
void Block::suspend_for(Wait reason) {
  threads_[current_].wait = reason;
  runnable_.erase(threads_[current_].position);
  fibers_[current_]->suspend();
  if (cancelling_) throw Cancelled{};
}

// Whether a destructor runs because of an exception. Nothing may wait then.
bool Block::unwinding() const { return std::uncaught_exceptions() > exceptions_outside_; }

void Block::release(int thread) {
  runnable_.insert(threads_[thread].position);
  conditional_.erase(threads_[thread].position);
  threads_[thread].wait = Wait::nothing;
}

void Block::end_thread(int thread) {
  --living_;
  runnable_.erase(threads_[thread].position);
  if (failure_) return;
  fail_if_awaited(thread, 32);
  fail_if_awaited(thread, warpgroup);
}

// Throw if an exchange that has begun needs `thread`, because it can no longer end.
void Block::fail_if_awaited(int thread, int size) const {
  const int first = thread / size * size;
  for (const auto& group : groups_[first / 32]) {
    if (group->size != size || group->arrived.empty() || !group->has(thread)) continue;
    throw ModelError(
        fmt::format("{}has ended while others wait for it at {}", place(thread), group->kind));
  }
}

void Block::cancel() {
  cancelling_ = true;
  for (int thread = 0; thread < threads_count_; ++thread)
    while (!threads_[thread].ended) resume(thread);
  cancelling_ = false;
}

void Block::check_guard() const {
  const auto size = static_cast<std::ptrdiff_t>(shared_size_);
  const auto end = static_cast<std::ptrdiff_t>(shared_room_ - guard_bytes);
  for (auto at = -static_cast<std::ptrdiff_t>(guard_bytes); at < end; ++at) {
    if (at == 0) at = size;
    if (shared_[at] != guard)
      throw ModelError(fmt::format("{}a byte {} was written; shared memory has {} bytes", place(-1),
                                   at < 0 ? fmt::format("{} before shared memory", -at)
                                          : fmt::format("at {} of shared memory", at),
                                   shared_size_));
  }
}

std::string Block::place(int thread) const {
  std::string text = fmt::format("block ({},{},{})", index_.x, index_.y, index_.z);
  if (thread >= 0) {
    const uint3& i = threads_[thread].index;
    text += fmt::format(", thread ({},{},{})", i.x, i.y, i.z);
  }
  return text + ": ";
}

std::string Block::deadlock() const {
  std::vector<std::pair<std::string, int>> waits;  // in order of the first thread
  int ended = 0;
  for (int number = 0; number < threads_count_; ++number) {
    const Thread& thread = threads_[number];
    std::string what;
    switch (thread.wait) {
      case Wait::nothing:
        ++ended;
        continue;
      case Wait::barrier:
        what =
            fmt::format("at barrier {} of {}", thread.barrier, barriers_[thread.barrier].expected);
        break;
      case Wait::exchange:
        what = thread.group->size == 32
                   ? fmt::format("at {} of warp {} (mask {:08x})", thread.group->kind,
                                 thread.group->first / 32, thread.group->mask)
                   : fmt::format("at {} of warpgroup {}", thread.group->kind,
                                 thread.group->first / 128);
        break;
      case Wait::condition:
        what = fmt::format("for {}", thread.what);
        break;
    }
    const auto same = [&](const auto& wait) { return wait.first == what; };
    const auto known = std::find_if(waits.begin(), waits.end(), same);
    if (known != waits.end()) {
      ++known->second;
    } else {
      waits.emplace_back(what, 1);
    }
  }
  std::string text = place(-1) + "deadlock: ";
  for (const auto& [what, count] : waits)
    text += fmt::format("{} {} {}, ", count, count == 1 ? "thread waits" : "threads wait", what);
  return text + fmt::format("{} {} ended", ended, ended == 1 ? "has" : "have");
}

// ---
// The places where the threads of a block wait for each other.

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
                                     int size, unsigned mask, void (*combine)(unsigned char*)) {
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
    const bool have_some_ended = living_ < threads_count_;
    for (int thread = first; have_some_ended && thread < first + members; ++thread) {
      if (group.has(thread) && threads_[thread].ended)
        throw ModelError(fmt::format("{}: waits for thread {}, which has ended", kind, thread));
    }
    group.kind = kind;
    group.bytes = bytes;
    // What a lane outside the mask would have given is undefined.
    if (size == 32 && mask != ~0u) std::memset(group.buffers[group.turn].data(), 0xff, 32 * bytes);
  }
  const bool same_kind = group.kind == kind || std::strcmp(group.kind, kind) == 0;
  if (!same_kind || group.bytes != bytes)
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
    if (combine != nullptr) combine(data);
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

void Block::wait_until(const char* what, const std::function<bool()>& ready, const void* object) {
  if (unwinding() || ready()) return;
  threads_[current_].what = what;
  threads_[current_].object = object;
  threads_[current_].ready = &ready;
  conditional_.insert(threads_[current_].position);
  suspend_for(Wait::condition);
}

}  // namespace ringscope::cuda::model
