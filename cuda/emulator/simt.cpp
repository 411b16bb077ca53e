#include "cuda/emulator/simt.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "cuda/emulator/block.h"

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

constexpr std::size_t kBlocksAtOnce = 4;

// Makes a block the one that runs on this OS thread.
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

// Begin, run and end the blocks of a grid, whose numbers are given in the order in which they begin,
// as long as there are any in `resident`.
static void run_blocks(std::vector<std::unique_ptr<Block>>& resident, dim3 grid,
                       const std::vector<std::uint64_t>& numbers, Random& random) {
  std::size_t begun = 0;
  const auto begin = [&](Block& block) {
    const std::uint64_t number = numbers[begun++], yz = number / grid.x;
    block.begin({static_cast<unsigned>(number % grid.x), static_cast<unsigned>(yz % grid.y),
                 static_cast<unsigned>(yz / grid.y)},
                number);
  };
  for (const auto& block : resident) begin(*block);
  std::size_t stuck = 0;  // blocks in a row that could not go on
  for (std::size_t which = 0; !resident.empty();) {
    which = stuck > 0 ? (which + 1) % resident.size() : random.below(resident.size());
    Block& block = *resident[which];
    const Running mark(block);
    stuck = block.run(resident.size() == 1 ? ~0ull : std::uint64_t{1} << random.below(16))
                ? 0
                : stuck + 1;
    if (block.has_ended()) {
      block.end();
      stuck = 0;
      if (begun < numbers.size())
        begin(block);
      else
        resident.erase(resident.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (stuck == resident.size()) {
      throw ModelError(block.deadlock());
    }
  }
}

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& kernel,
              bool cooperative) {
  if (running != nullptr) throw ModelError("a kernel cannot start a kernel");
  if (const std::string wrong = wrong_shape(grid, block); !wrong.empty()) throw ModelError(wrong);
  const Schedule schedule = current_schedule();
  gridDim = grid;
  blockDim = block;
  std::vector<std::uint64_t> numbers(std::uint64_t{grid.x} * grid.y * grid.z);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  if (schedule.order == ThreadOrder::descending) std::reverse(numbers.begin(), numbers.end());
  Random random(schedule.seed);
  std::size_t at_once = 1;
  if (schedule.order == ThreadOrder::shuffled) {
    for (std::uint64_t n = numbers.size(); n > 1; --n)
      std::swap(numbers[n - 1], numbers[random.below(n)]);
    at_once = std::min(kBlocksAtOnce, numbers.size());
  }
  if (cooperative) at_once = numbers.size();
  Clocks clocks{};
  std::vector<std::unique_ptr<Block>> resident;
  while (resident.size() < at_once)
    resident.push_back(
        std::make_unique<Block>(block, shared_bytes, schedule, kernel, resident.size(), clocks));
  try {
    run_blocks(resident, grid, numbers, random);
  } catch (...) {
    for (const auto& each : resident) {
      const Running mark(*each);
      each->cancel();
    }
    throw;
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
                                   unsigned mask, void (*combine)(unsigned char* given)) {
  return block().exchange(kind, mine, bytes, 32, mask, combine);
}

const unsigned char* warpgroup_exchange(const char* kind, const void* mine, std::size_t bytes) {
  return block().exchange(kind, mine, bytes, warpgroup, ~0u, nullptr);
}

void wait_until(const char* what, const std::function<bool()>& ready, const void* object) {
  block().wait_until(what, ready, object);
}

std::unique_ptr<ThreadState>& thread_state() { return block().thread_state(); }
std::weak_ptr<void>& block_state() { return block().state(); }

void defer(std::function<void()> effect) { block().defer(std::move(effect)); }

}  // namespace ringscope::cuda::model
