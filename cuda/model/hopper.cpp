#include "cuda/model/hopper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cuda/model/simt.h"

namespace ringscope::cuda::model {
namespace {

// An mbarrier as its 64 bits. `mark` tells an initialised one from poisoned memory.
struct Mbarrier {
  std::uint64_t mark : 2;
  std::uint64_t parity : 1;  // of the current phase
  std::uint64_t arrivals : 20;
  std::uint64_t pending : 20;
  std::int64_t bytes : 21;  // announced and not yet landed
};
static_assert(sizeof(Mbarrier) == 8);
constexpr std::uint64_t initialised = 2;
constexpr int max_arrivals = (1 << 20) - 1;
constexpr std::int64_t max_bytes = (1 << 20) - 1;

Mbarrier load(const std::uint64_t* object) {
  check_shared(object, 8, 8, "an mbarrier");
  Mbarrier barrier;
  std::memcpy(&barrier, object, 8);
  if (barrier.mark != initialised) throw ModelError("an mbarrier is used that was not initialised");
  return barrier;
}

// Store the barrier, in its next phase if this one is over.
void store(std::uint64_t* object, Mbarrier barrier) {
  if (barrier.pending == 0 && barrier.bytes == 0) {
    barrier.parity ^= 1;
    barrier.pending = barrier.arrivals;
  }
  std::memcpy(object, &barrier, 8);
}

void count_bytes(Mbarrier& barrier, std::int64_t bytes) {
  const std::int64_t sum = barrier.bytes + bytes;
  if (sum < -max_bytes || max_bytes < sum)
    throw ModelError(
        fmt::format("{} bytes are pending at an mbarrier, at most {} can be", sum, max_bytes));
  barrier.bytes = sum;
}

// Count bytes that a copy has brought.
void land(std::uint64_t* object, std::int64_t bytes) {
  Mbarrier barrier = load(object);
  count_bytes(barrier, -bytes);
  store(object, barrier);
}

// Throw unless the copy engine may count bytes at `object`.
void check_copies_to(const std::uint64_t* object) {
  load(object);
  if (!hopper_thread().block->known_barriers.contains(object))
    throw ModelError("a copy counts its bytes at an mbarrier made without a fence_barrier_init");
}

// The facts of a copy, because the tensor map may be gone when the copy happens.
struct Copy {
  std::shared_ptr<HopperBlock> block;
  unsigned char* to;
  TensorMap map;
  std::array<int, 4> at;
  std::uint64_t* object;

  void perform() const {
    std::int64_t offset = 0;
    for (int w = 0; w < map.box[3]; ++w)
      for (int z = 0; z < map.box[2]; ++z)
        for (int y = 0; y < map.box[1]; ++y)
          for (int x = 0; x < map.box[0]; ++x, offset += 2) copy_element({x, y, z, w}, offset);
    land(object, offset);
  }

  void copy_element(const std::array<int, 4>& in_box, std::int64_t offset) const {
    const unsigned char* from = map.address;
    bool exists = true;
    for (int i = 0; i < map.rank; ++i) {
      const std::int64_t place = std::int64_t{at[i]} + in_box[i];
      exists = exists && 0 <= place && place < map.extent[i];
      from += place * map.stride_bytes[i];
    }
    std::uint16_t element = 0;
    if (exists) std::memcpy(&element, from, 2);
    // The engine swizzles shared-memory addresses, wherever the box begins.
    std::uint32_t address = shared_address(to) + static_cast<std::uint32_t>(offset);
    if (map.swizzle_bytes == 128) address ^= (address / 128 % 8) * 16;
    unsigned char* place = shared_bytes() + (address - shared_window);
    std::memcpy(place, &element, 2);
    std::memcpy(block->async_view.data() + (place - shared_bytes()), &element, 2);
  }
};

}  // namespace

std::uint32_t shared_address(const void* in_shared) {
  check_shared(in_shared, 0, 1, "an address");
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(in_shared) - shared_bytes()) +
         shared_window;
}

void mbarrier_init(std::uint64_t* object, int arrivals) {
  check_shared(object, 8, 8, "an mbarrier");
  if (arrivals < 1 || max_arrivals < arrivals)
    throw ModelError(fmt::format("an mbarrier of {} arrivals: 1 to {}", arrivals, max_arrivals));
  Mbarrier barrier{};
  barrier.mark = initialised;
  barrier.arrivals = barrier.pending = static_cast<std::uint64_t>(arrivals);
  std::memcpy(object, &barrier, 8);
  HopperThread& mine = hopper_thread();
  mine.block->known_barriers.erase(object);
  mine.made_barriers.push_back(object);
}

void mbarrier_arrive(std::uint64_t* object, std::uint32_t expected_bytes) {
  Mbarrier barrier = load(object);
  if (barrier.pending == 0)
    throw ModelError(fmt::format("one arrival more than the {} that an mbarrier takes in a phase",
                                 static_cast<int>(barrier.arrivals)));
  count_bytes(barrier, expected_bytes);
  barrier.pending -= 1;
  store(object, barrier);
}

void mbarrier_wait(std::uint64_t* object, std::uint32_t parity) {
  if (parity > 1) throw ModelError(fmt::format("a wait for parity {}", parity));
  wait_until(parity == 0 ? "an mbarrier's phase of parity 0" : "an mbarrier's phase of parity 1",
             [object, parity] { return load(object).parity != parity; });
}

void fence_barrier_init() {
  HopperThread& mine = hopper_thread();
  mine.block->known_barriers.insert(mine.made_barriers.begin(), mine.made_barriers.end());
  mine.made_barriers.clear();
}

void named_barrier_sync(int id, int threads) {
  if (id == 0) throw ModelError("named barrier 0 is that of __syncthreads");
  block_barrier(id, threads);
}

void named_barrier_arrive(int id, int threads) {
  if (id == 0) throw ModelError("named barrier 0 is that of __syncthreads");
  block_barrier_arrive(id, threads);
}

void stored_for_async(const void* place, std::size_t bytes) {
  check_shared(place, bytes, 1, "a store");
  hopper_thread().stored.emplace_back(static_cast<const unsigned char*>(place) - shared_bytes(),
                                      bytes);
}

void fence_proxy_async() {
  HopperThread& mine = hopper_thread();
  for (const auto& [place, bytes] : mine.stored)
    std::memcpy(mine.block->async_view.data() + place, shared_bytes() + place, bytes);
  mine.stored.clear();
}

void await_turn(const int* turn, int value) {
  wait_until("a turn", [turn, value] { return *turn == value; });
}

void bulk_load(void* to, const void* from, std::uint32_t bytes, std::uint64_t* object) {
  if (bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    throw ModelError(fmt::format("a bulk copy of {} bytes: whole units of 16 bytes", bytes));
  check_shared(to, bytes, 16, "a bulk copy");
  check_copies_to(object);
  auto* const place = static_cast<unsigned char*>(to);
  defer([block = hopper_thread().block, place, from, bytes, object] {
    std::memcpy(place, from, bytes);
    std::memcpy(block->async_view.data() + (place - shared_bytes()), from, bytes);
    land(object, bytes);
  });
}

void bulk_add(float* to, const float* from, std::uint32_t bytes) {
  if (bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(to) % 16 != 0)
    throw ModelError(fmt::format("a bulk addition of {} bytes: whole units of 16 bytes", bytes));
  check_shared(from, bytes, 16, "a bulk addition");
  HopperThread& mine = hopper_thread();
  const auto place = reinterpret_cast<const unsigned char*>(from) - shared_bytes();
  mine.open_adds.push_back(std::make_shared<BulkAdd>(BulkAdd{
      mine.block, to, static_cast<std::size_t>(place), std::vector<float>(bytes / sizeof(float))}));
}

void bulk_commit() {
  HopperThread& mine = hopper_thread();
  for (const std::shared_ptr<BulkAdd>& add : mine.open_adds) {
    mine.adds.push_back(add);
    defer([add] {
      std::memcpy(add->values.data(), add->block->async_view.data() + add->from,
                  add->values.size() * sizeof(float));
      add->was_read = true;
      defer([add] {
        for (std::size_t i = 0; i < add->values.size(); ++i) add->to[i] += add->values[i];
        add->was_added = true;
      });
    });
  }
  mine.open_adds.clear();
}

void bulk_wait(bool only_read) {
  std::vector<std::shared_ptr<BulkAdd>>& adds = hopper_thread().adds;
  wait_until("bulk additions", [&adds, only_read] {
    return std::all_of(adds.begin(), adds.end(), [only_read](const auto& add) {
      return only_read ? add->was_read : add->was_added;
    });
  });
  if (!only_read) adds.clear();
}

void tma_load(void* to, const TensorMap& map, const std::array<int, 4>& at, int rank,
              std::uint64_t* object) {
  if (map.address == nullptr || map.rank != rank)
    throw ModelError(fmt::format("a {}-D copy by a tensor map of {} dimensions", rank, map.rank));
  std::size_t bytes = 2;
  for (const int extent : map.box) bytes *= static_cast<std::size_t>(extent);
  check_shared(to, bytes, 128, "a copied box");
  check_copies_to(object);
  const Copy copy{hopper_thread().block, static_cast<unsigned char*>(to), map, at, object};
  defer([copy] { copy.perform(); });
}

void set_max_registers(int count, bool more) {
  if (count < 24 || 256 < count || count % 8 != 0)
    throw ModelError(fmt::format("setmaxnreg {}: a multiple of 8 from 24 to 256", count));
  const unsigned char* counts = warpgroup_exchange("setmaxnreg", &count, sizeof(count));
  for (int thread = 0; thread < 128; ++thread)
    if (std::memcmp(counts + thread * sizeof(count), &count, sizeof(count)) != 0)
      throw ModelError("a warpgroup's threads ask for different numbers of registers");
  std::vector<int>& registers = hopper_thread().block->registers;
  int& mine = registers[static_cast<std::size_t>(thread_in_block() / 128)];
  if (more ? count < mine : count > mine)
    throw ModelError(fmt::format("setmaxnreg.{} {} by a warpgroup that has {} registers a thread",
                                 more ? "inc" : "dec", count, mine));
  const auto free = [&registers, &mine, count] {
    int sum = count - mine;
    for (const int r : registers) sum += r;
    return sum * 128 <= 65536;
  };
  if (more) wait_until("registers that others release", free);
  warpgroup_exchange("setmaxnreg, done", nullptr, 0);
  mine = count;
}

}  // namespace ringscope::cuda::model
