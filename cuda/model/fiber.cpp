// glibc's fortified longjmp takes a jump to another stack for an attack.
#undef _FORTIFY_SOURCE
#include "cuda/model/fiber.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <new>

// Sanitizers follow a program's stack and have to be told of every change.
#if defined(__SANITIZE_ADDRESS__)
#define RINGSCOPE_FIBER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define RINGSCOPE_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RINGSCOPE_FIBER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define RINGSCOPE_FIBER_TSAN 1
#endif
#endif
#ifdef RINGSCOPE_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef RINGSCOPE_FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace ringscope::cuda::model {

struct Fiber::State {
  unsigned char* mapping = nullptr;  // a page that faults on overflow, then the stack
  std::size_t mapping_bytes = 0;
  unsigned char* stack = nullptr;
  bool started = false;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
  ucontext_t first_entry;
#ifdef RINGSCOPE_FIBER_TSAN
  // ThreadSanitizer refuses longjmp between fibers but takes swapcontext.
  ucontext_t outside_context;
  void* tsan_inside = nullptr;
  void* tsan_outside = nullptr;
#else
  jmp_buf inside, outside;
#endif
#ifdef RINGSCOPE_FIBER_ASAN
  void* fake_inside = nullptr;
  void* fake_outside = nullptr;
  const void* outside_bottom = nullptr;
  std::size_t outside_size = 0;
#endif
};

Fiber::Fiber() : state_(std::make_unique<State>()) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  state_->mapping_bytes = page + stack_bytes;
  void* mapping = mmap(nullptr, state_->mapping_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  state_->mapping = static_cast<unsigned char*>(mapping);
  state_->stack = state_->mapping + page;
  mprotect(mapping, page, PROT_NONE);
#ifdef RINGSCOPE_FIBER_TSAN
  state_->tsan_inside = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef RINGSCOPE_FIBER_TSAN
  __tsan_destroy_fiber(state_->tsan_inside);
#endif
#ifdef RINGSCOPE_FIBER_ASAN
  // Frames that never returned left their red zones behind; the addresses may be mapped again.
  __asan_unpoison_memory_region(state_->stack, stack_bytes);
#endif
  munmap(state_->mapping, state_->mapping_bytes);
}

void Fiber::set_body(void (*body)(void*), void* argument) {
  state_->body = body;
  state_->argument = argument;
}

// makecontext passes ints only.
void Fiber::entry(unsigned high, unsigned low) {
  auto* fiber = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low);
  State& state = *fiber->state_;
#ifdef RINGSCOPE_FIBER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &state.outside_bottom, &state.outside_size);
#endif
  for (;;) {
    state.body(state.argument);
    fiber->suspend();
  }
}

#ifdef RINGSCOPE_FIBER_TSAN

void Fiber::resume() {
  State& state = *state_;
  if (!state.started) {
    state.started = true;
    getcontext(&state.first_entry);
    state.first_entry.uc_stack.ss_sp = state.stack;
    state.first_entry.uc_stack.ss_size = stack_bytes;
    state.first_entry.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&state.first_entry, reinterpret_cast<void (*)()>(&Fiber::entry), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
  state.tsan_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(state.tsan_inside, 0);
  swapcontext(&state.outside_context, &state.first_entry);
}

void Fiber::suspend() {
  __tsan_switch_to_fiber(state_->tsan_outside, 0);
  swapcontext(&state_->first_entry, &state_->outside_context);
}

#else

// The context calls, which ask the kernel about signals, serve for the first entry only.
void Fiber::resume() {
  State& state = *state_;
#ifdef RINGSCOPE_FIBER_ASAN
  __sanitizer_start_switch_fiber(&state.fake_outside, state.stack, stack_bytes);
#endif
  if (_setjmp(state.outside) == 0) {
    if (state.started) _longjmp(state.inside, 1);
    state.started = true;
    getcontext(&state.first_entry);
    state.first_entry.uc_stack.ss_sp = state.stack;
    state.first_entry.uc_stack.ss_size = stack_bytes;
    state.first_entry.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&state.first_entry, reinterpret_cast<void (*)()>(&Fiber::entry), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
    setcontext(&state.first_entry);
  }
#ifdef RINGSCOPE_FIBER_ASAN
  __sanitizer_finish_switch_fiber(state_->fake_outside, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#ifdef RINGSCOPE_FIBER_ASAN
  __sanitizer_start_switch_fiber(&state_->fake_inside, state_->outside_bottom,
                                 state_->outside_size);
#endif
  if (_setjmp(state_->inside) == 0) _longjmp(state_->outside, 1);
#ifdef RINGSCOPE_FIBER_ASAN
  __sanitizer_finish_switch_fiber(state_->fake_inside, &state_->outside_bottom,
                                  &state_->outside_size);
#endif
}

#endif

}  // namespace ringscope::cuda::model
