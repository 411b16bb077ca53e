// A stack of its own and a way to change to it and back: what a thread of a kernel runs on in the
// model. A change costs some ten nanoseconds and no system call.
#pragma once

#include <cstddef>
#include <memory>

namespace ringscope::cuda::model {

// Belongs to the OS thread that first resumed it. Between two bodies it can be used again, so stacks
// are made once.
class Fiber {
 public:
  static constexpr std::size_t stack_bytes = 256 * 1024;

  // Throws std::bad_alloc when no stack can be had.
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() runs body(argument). The body must not throw.
  void set_body(void (*body)(void*), void* argument);
  // Runs the body until it suspends or ends.
  void resume();
  // Called on the fiber: goes back to where it was resumed.
  void suspend();

 private:
  struct State;
  static void entry(unsigned high, unsigned low);

  std::unique_ptr<State> state_;
};

}  // namespace ringscope::cuda::model
