// Fibers and blocks of the model: what a kernel's threads run on. A Fiber is a stack and a way to
// switch to it and back. A switch takes some ten nanoseconds and no system call.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/emulator/random.h"
#include "cuda/emulator/simt.h"

namespace ringscope::cuda::model {

// Belongs to the OS thread that first resumed it. It can be reused for another body once one has
// ended, so stacks are made once.
class Fiber {
 public:
  static constexpr std::size_t stack_bytes = 256 * 1024;

  // Throws std::bad_alloc when no stack can be allocated.
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Make the next resume() run body(argument). The body must not throw.
  void set_body(void (*body)(void*), void* argument);
  // Run the body until it suspends or ends.
  void resume();
  // Return to where the fiber was resumed. Called on the fiber.
  void suspend();

 private:
  struct State;
  static void entry(unsigned high, unsigned low);
  void start();  // prepares the first entry

  std::unique_ptr<State> state_;
};

// ---
// A Block is the block that runs: its threads, which of them can run, and what the others wait for.
// The calls of simt.h go to the block that runs on this OS thread.

// A set of small numbers that finds its smallest one quickly.
class NumberSet {
 public:
  void resize(int limit);
  void insert(int n) { words_[n / 64] |= std::uint64_t{1} << (n % 64); }
  void erase(int n) { words_[n / 64] &= ~(std::uint64_t{1} << (n % 64)); }
  bool contains(int n) const { return words_[n / 64] >> (n % 64) & 1; }
  // Return the smallest number that is at least n, or -1 when there is none.
  int next(int n) const;

 private:
  std::vector<std::uint64_t> words_;
};

constexpr int warpgroup = 128;  // threads

using Clocks = std::array<std::uint64_t, kMultiprocessors>;  // simt.h, steps()

class Block {
 public:
  // Take the shape of a grid's blocks, of which it runs one after another. Those that live at once
  // have different places, from 0 on, and share the clocks.
  Block(dim3 block, std::size_t shared_bytes, const Schedule& schedule,
        const std::function<void()>& kernel, std::size_t place, Clocks& clocks);

  // Begin a block. `number` is its place in the grid, `index` too.
  void begin(uint3 index, std::uint64_t number);
  // Let threads run, one after another, `most` times. Return whether any could. What a thread throws
  // ends the block.
  bool run(std::uint64_t most);
  bool has_ended() const { return living_ == 0; }
  // Do what is left when all threads have ended.
  void end();
  // Unwind threads that have not ended.
  void cancel();
  // Return what the threads wait for.
  std::string deadlock() const;

  const Schedule& schedule() const { return schedule_; }
  unsigned char* shared() { return shared_; }
  std::size_t shared_size() const { return shared_size_; }
  int current() const { return current_; }
  std::uint64_t steps() { return ++clocks_[multiprocessor_]; }
  int multiprocessor() const { return multiprocessor_; }

  void barrier(int id, int threads, bool wait);
  // Exchange bytes among the `size` threads (32: a warp, 128: a warpgroup) that the thread belongs
  // to. `mask` selects lanes of a warp. combine, if any, is called once on what all have given.
  const unsigned char* exchange(const char* kind, const void* mine, std::size_t bytes, int size,
                                unsigned mask, void (*combine)(unsigned char*));
  void wait_until(const char* what, const std::function<bool()>& ready, const void* object);
  void defer(std::function<void()> effect);
  std::unique_ptr<ThreadState>& thread_state() { return threads_[current_].state; }
  std::weak_ptr<void>& state() { return state_; }

 private:
  enum class Wait { nothing, barrier, exchange, condition };
  struct Group;
  struct Thread {
    uint3 index{};
    int position = 0;  // in the order of preference
    bool ended = false;
    Wait wait = Wait::nothing;
    int barrier = 0;
    const Group* group = nullptr;
    const char* what = nullptr;
    const void* object = nullptr;
    const std::function<bool()>* ready = nullptr;
    std::unique_ptr<ThreadState> state;
  };
  struct Barrier {
    int expected = 0;
    int arrived = 0;
    std::vector<int> waiting;
  };
  // Threads that exchange bytes. The two buffers alternate, because a thread that reaches the next
  // exchange has read the last.
  struct Group {
    int first = 0;
    int size = 0;
    unsigned mask = 0;  // lanes of a warp

    bool has(int thread) const { return size == warpgroup || (mask >> (thread - first) & 1) != 0; }
    const char* kind = nullptr;
    std::size_t bytes = 0;
    int turn = 0;
    std::vector<int> arrived;
    std::array<std::vector<unsigned char>, 2> buffers;
  };

  struct Deferred {
    int thread;  // that asked for it
    std::function<void()> effect;
  };

  static void thread_body(void* fiber_argument);
  void switch_to(int thread);
  void draw_positions();
  int pick();
  bool ask(int thread);
  bool perform_deferred();
  void resume(int thread);
  void suspend_for(Wait reason);
  bool unwinding() const;
  void release(int thread);
  void end_thread(int thread);
  void check_guard() const;
  Group& group_of(int first, int size, unsigned mask);
  void fail_if_awaited(int thread, int size) const;
  std::string place(int thread) const;

  const std::function<void()>& kernel_;
  const Schedule schedule_;
  dim3 shape_;
  int threads_count_;
  Random random_{0};

  std::vector<unsigned char> shared_storage_;
  unsigned char* shared_ = nullptr;
  std::size_t shared_size_, shared_room_;  // without and with guards

  uint3 index_{};
  int multiprocessor_ = 0;
  Clocks& clocks_;
  std::vector<std::unique_ptr<Fiber>>& fibers_;  // by thread
  std::vector<Thread> threads_;
  std::vector<int> at_position_;  // thread by position
  NumberSet runnable_;            // positions
  NumberSet conditional_;         // positions of the threads that wait for a condition
  std::size_t picks_until_draw_ = 0;
  std::array<Barrier, 16> barriers_;
  std::vector<std::vector<std::unique_ptr<Group>>> groups_;  // by first warp
  std::vector<Deferred> deferred_;
  std::weak_ptr<void> state_;
  int current_ = -1;  // the running thread
  int living_ = 0;
  int exceptions_outside_ = 0;
  bool cancelling_ = false;
  std::exception_ptr failure_;
};

}  // namespace ringscope::cuda::model
