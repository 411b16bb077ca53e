#include "cuda/model/simt.h"

#include <fmt/format.h>

#include <mutex>
#include <numeric>

#include "cuda/model/block.h"

namespace ringscope::cuda::model {
namespace {

std::mutex schedule_mutex;
Schedule next_schedule;  // guarded by schedule_mutex

// The block that runs on this OS thread.
constinit thread_local Block* running = nullptr;

Block& block() {
  if (running == nullptr) throw ModelError("called outside of a kernel");
  return *running;
}

Schedule current_schedule() {
  const std::lock_guard lock(schedule_mutex);
  return next_schedule;
}

// Sets this OS thread up for a grid, and restores it.
class Running {
 public:
  explicit Running(Block& block) { running = &block; }
  ~Running() { running = nullptr; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

}  // namespace

std::string wrong_shape(dim3 grid, dim3 block) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64)
    return fmt::format("a block of {} x {} x {} threads: 1 to 1024, z at most 64", block.x, block.y,
                       block.z);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
      grid.z > 65535)
    return fmt::format(
        "a grid of {} x {} x {} blocks: at least 1, at most 2147483647 x 65535 x 65535", grid.x,
        grid.y, grid.z);
  return {};
}

void set_schedule(const Schedule& schedule) {
  const std::lock_guard lock(schedule_mutex);
  next_schedule = schedule;
}

const Schedule& schedule() {
  if (running != nullptr) return running->schedule();
  static thread_local Schedule copy;
  copy = current_schedule();
  return copy;
}

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& kernel) {
  if (running != nullptr) throw ModelError("a kernel cannot start a kernel");
  if (const std::string wrong = wrong_shape(grid, block); !wrong.empty()) throw ModelError(wrong);
  const Schedule schedule = current_schedule();
  Block runner(block, shared_bytes, schedule, kernel);
  const Running mark(runner);
  gridDim = grid;
  blockDim = block;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  std::vector<std::uint64_t> shuffled;
  if (schedule.order == ThreadOrder::shuffled) {
    shuffled.resize(blocks);
    std::iota(shuffled.begin(), shuffled.end(), std::uint64_t{0});
    Random random(schedule.seed);
    for (std::uint64_t n = blocks; n > 1; --n)
      std::swap(shuffled[n - 1], shuffled[random.below(n)]);
  }
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t number = schedule.order == ThreadOrder::ascending    ? i
                                 : schedule.order == ThreadOrder::descending ? blocks - 1 - i
                                                                             : shuffled[i];
    const std::uint64_t yz = number / grid.x;
    runner.run({static_cast<unsigned>(number % grid.x), static_cast<unsigned>(yz % grid.y),
                static_cast<unsigned>(yz / grid.y)},
               number);
  }
}

std::uint64_t steps() { return block().steps(); }
int multiprocessor() { return block().multiprocessor(); }

bool in_kernel() { return running != nullptr; }
unsigned char* shared_bytes() { return block().shared(); }
std::size_t shared_size() { return block().shared_size(); }
int thread_in_block() { return block().current(); }
int warp() { return block().current() / 32; }
int lane() { return block().current() % 32; }
void block_barrier(int id, int threads) { block().barrier(id, threads, true); }
void block_barrier_arrive(int id, int threads) { block().barrier(id, threads, false); }

const unsigned char* warp_exchange(const char* kind, const void* mine, std::size_t bytes,
                                   unsigned mask) {
  return block().exchange(kind, mine, bytes, 32, mask);
}

const unsigned char* warpgroup_exchange(const char* kind, const void* mine, std::size_t bytes) {
  return block().exchange(kind, mine, bytes, warpgroup, ~0u);
}

void wait_until(const char* what, const std::function<bool()>& ready) {
  block().wait_until(what, ready);
}

std::unique_ptr<ThreadState>& thread_state() { return block().thread_state(); }

void defer(std::function<void()> effect) { block().defer(std::move(effect)); }

}  // namespace ringscope::cuda::model
