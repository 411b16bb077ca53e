#include "cuda/emulator/hopper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include "core/base/dtype.h"
#include "cuda/emulator/simt.h"
#include "cuda/emulator/tensor_core.h"

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

// Throw unless the copy engine may count at `object`.
void check_copies_to(const std::uint64_t* object) {
  load(object);
  if (!hopper_thread().block->known_barriers.contains(object))
    throw ModelError("a copy counts at an mbarrier made without a fence_barrier_init");
}

// Call f(element, place) for the elements of the box at `at`, in order: where each lies in device memory,
// null outside the tensor, and in shared memory, of which the box begins at address `begin`.
template <class F>
void for_each_element(const TensorMap& map, const std::array<int, 4>& at, std::uint32_t begin,
                      const F& f) {
  std::int64_t offset = 0;
  for (int w = 0; w < map.box[3]; ++w)
    for (int z = 0; z < map.box[2]; ++z)
      for (int y = 0; y < map.box[1]; ++y)
        for (int x = 0; x < map.box[0]; ++x, offset += map.stride_bytes[0]) {
          const unsigned char* element = map.address;
          const std::array<int, 4> in_box{x, y, z, w};
          bool exists = true;
          for (int i = 0; i < map.rank; ++i) {
            const std::int64_t place = std::int64_t{at[i]} + in_box[i];
            exists = exists && 0 <= place && place < map.extent[i];
            element += place * map.stride_bytes[i];
          }
          // The engine swizzles shared-memory addresses, wherever the box begins.
          std::uint32_t address = begin + static_cast<std::uint32_t>(offset);
          if (map.swizzle_bytes == 128) address ^= (address / 128 % 8) * 16;
          f(exists ? element : nullptr, address - shared_window);
        }
}

// The facts of a copy, because the tensor map may be gone when the copy happens.
struct Copy {
  std::shared_ptr<HopperBlock> block;
  std::uint32_t to;
  TensorMap map;
  std::array<int, 4> at;
  std::uint64_t* object;

  void perform() const {
    const auto size = static_cast<std::size_t>(map.stride_bytes[0]);
    std::int64_t bytes = 0;
    for_each_element(map, at, to, [&](const unsigned char* element, std::uint32_t place) {
      for (unsigned char* const view : {shared_bytes(), block->async_view.data()})
        element ? std::memcpy(view + place, element, size) : std::memset(view + place, 0, size);
      bytes += map.stride_bytes[0];
    });
    land(object, bytes);
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
  wait_until(
      parity == 0 ? "an mbarrier's phase of parity 0" : "an mbarrier's phase of parity 1",
      [object, parity] { return load(object).parity != parity; }, object);
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

namespace {

// Of the running thread, or null when it has used none of Hopper's features.
HopperThread* hopper_thread_if_any() { return dynamic_cast<HopperThread*>(thread_state().get()); }

void check_turn_may_pass() {
  const HopperThread* const mine = hopper_thread_if_any();
  if (mine != nullptr && !mine->writes.empty())
    throw ModelError("passes a turn before its bulk writes have ended");
}

void check_fenced_since_turn() {
  if (hopper_thread().took_turn)
    throw ModelError("a copy without a fence_proxy_async_global since its thread awaited a turn");
}

void check_bulk(const void* in_shared, const void* in_device, std::uint32_t bytes) {
  if (bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(in_device) % 16 != 0)
    throw ModelError(fmt::format("a bulk copy of {} bytes: whole units of 16 bytes", bytes));
  check_shared(in_shared, bytes, 16, "a bulk copy");
  check_fenced_since_turn();
}

void check_copied_box(const void* to, const TensorMap& map, int rank) {
  if (map.address == nullptr || map.rank != rank)
    throw ModelError(fmt::format("a {}-D copy by a tensor map of {} dimensions", rank, map.rank));
  auto bytes = static_cast<std::size_t>(map.stride_bytes[0]);
  for (const int extent : map.box) bytes *= static_cast<std::size_t>(extent);
  check_shared(to, bytes, 128, "a copied box");
}

}  // namespace

void await_turn(const int* turn, int value) {
  wait_until("a turn", [turn, value] { return *turn == value; });
  if (HopperThread* const mine = hopper_thread_if_any()) mine->took_turn = true;
}

void pass_turn(int* turn, int value) {
  check_turn_may_pass();
  *turn = value;
}

void count_at_turn(int* turn) {
  check_turn_may_pass();
  ++*turn;
}

void fence_proxy_async_global() { hopper_thread().took_turn = false; }

void bulk_load(void* to, const void* from, std::uint32_t bytes, std::uint64_t* object) {
  check_bulk(to, from, bytes);
  check_copies_to(object);
  auto* const place = static_cast<unsigned char*>(to);
  defer([block = hopper_thread().block, place, from, bytes, object] {
    std::memcpy(place, from, bytes);
    std::memcpy(block->async_view.data() + (place - shared_bytes()), from, bytes);
    land(object, bytes);
  });
}

void tma_store(const TensorMap& map, const void* from, const std::array<int, 4>& at, bool adds) {
  check_copied_box(from, map, 4);
  if (map.stride_bytes[0] != sizeof(float))
    throw ModelError("an addition of other values than f32");
  HopperThread& mine = hopper_thread();
  const std::uint32_t begin = shared_address(from);
  const auto values = std::make_shared<std::vector<float>>();
  const auto read = [=, block = mine.block] {
    for_each_element(map, at, begin, [&](const unsigned char*, std::uint32_t place) {
      std::memcpy(&values->emplace_back(), block->async_view.data() + place, sizeof(float));
    });
  };
  const auto write = [=] {
    auto value = values->begin();
    for_each_element(map, at, begin, [&](const unsigned char* to, std::uint32_t) {
      if (to) {
        float& sum = *reinterpret_cast<float*>(const_cast<unsigned char*>(to));
        sum = adds ? sum + *value : *value;
      }
      ++value;
    });
  };
  mine.open_writes.push_back(std::make_shared<BulkWrite>(BulkWrite{read, write}));
}

void bulk_store(void* to, const void* from, std::uint32_t bytes) {
  check_bulk(from, to, bytes);
  HopperThread& mine = hopper_thread();
  const auto begin = static_cast<const unsigned char*>(from) - shared_bytes();
  const auto values = std::make_shared<std::vector<unsigned char>>(bytes);
  const auto read = [=, block = mine.block] {
    std::memcpy(values->data(), block->async_view.data() + begin, bytes);
  };
  const auto store = [=] { std::memcpy(to, values->data(), bytes); };
  mine.open_writes.push_back(std::make_shared<BulkWrite>(BulkWrite{read, store}));
}

void bulk_commit() {
  HopperThread& mine = hopper_thread();
  for (const std::shared_ptr<BulkWrite>& each : mine.open_writes) {
    mine.writes.push_back(each);
    defer([each] {
      each->read();
      each->was_read = true;
      defer([each] {
        each->write();
        each->was_written = true;
      });
    });
  }
  mine.open_writes.clear();
}

void bulk_wait(bool only_read) {
  std::vector<std::shared_ptr<BulkWrite>>& writes = hopper_thread().writes;
  wait_until("bulk writes", [&writes, only_read] {
    return std::all_of(writes.begin(), writes.end(), [only_read](const auto& each) {
      return only_read ? each->was_read : each->was_written;
    });
  });
  for (const auto& each : writes) each->was_awaited = true;
  if (!only_read) writes.clear();
}

void tma_load(void* to, const TensorMap& map, const std::array<int, 4>& at, int rank,
              std::uint64_t* object) {
  check_copied_box(to, map, rank);
  check_copies_to(object);
  check_fenced_since_turn();
  const Copy copy{hopper_thread().block, shared_address(to), map, at, object};
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
  const auto free = [&registers, &mine, count, pool = hopper_thread().block->pool] {
    int sum = count - mine;
    for (const int r : registers) sum += r;
    return sum <= pool;
  };
  if (more) wait_until("registers that others release", free, &mine);
  warpgroup_exchange("setmaxnreg, done", nullptr, 0);
  mine = count;
}

// ---
// Products of warpgroups, and what the model keeps for a block and its threads.

namespace {

constexpr int wgmma_threads = 128, wgmma_rows = 64, max_columns = 256;

std::shared_ptr<HopperBlock> new_block() {
  auto block = std::make_shared<HopperBlock>();
  block->async_view.assign(shared_size(), 0xff);
  const int threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  const int each = threads == 0 ? 0 : 65536 / threads / 8 * 8;
  block->registers.assign(static_cast<std::size_t>((threads + 127) / 128), each < 256 ? each : 256);
  for (const int count : block->registers) block->pool += count;
  return block;
}

float value(std::uint16_t bits, bool is_bf16) {
  return is_bf16 ? bf16{bits}.to_float() : f16{bits}.to_float();
}

// An operand in shared memory, as its 64-bit descriptor gives it. Offsets count 16 bytes.
class SharedOperand {
 public:
  SharedOperand(const std::vector<unsigned char>& memory, std::uint64_t descriptor, bool mn_major)
      : memory_(memory),
        start_(field(descriptor, 0)),
        leading_(field(descriptor, 16)),
        stride_(field(descriptor, 32)),
        mn_major_(mn_major) {
    if (descriptor >> 62 != 1)
      throw ModelError("wgmma: only operands with the 128-byte swizzle are modelled");
    if ((descriptor >> 49 & 7) != 0)
      throw ModelError("wgmma: a base offset other than 0 is not modelled");
  }

  // Return element `mn` (row of A, column of B) at depth `k`.
  std::uint16_t at(int mn, int k) const {
    // With the 128-byte swizzle the unit is 8 rows of 128 bytes. K-major: a row is 64 elements
    // along k, and the stride leads to the next 8 rows along mn. MN-major: a row is 64 elements
    // along mn, and the 8 rows lie along k; the stride leads to the next 8 along k, the leading
    // offset to the next 64 along mn.
    const std::uint32_t offset = mn_major_
                                     ? static_cast<std::uint32_t>(mn / 64) * leading_ +
                                           static_cast<std::uint32_t>(k / 8) * stride_ +
                                           static_cast<std::uint32_t>(k % 8 * 128 + mn % 64 * 2)
                                     : static_cast<std::uint32_t>(mn / 8) * stride_ +
                                           static_cast<std::uint32_t>(mn % 8 * 128 + k * 2);
    std::uint32_t address = start_ + offset;
    address ^= (address >> 7 & 7) << 4;
    if (address < shared_window || address + 2 > shared_window + memory_.size())
      throw ModelError(fmt::format("wgmma: an operand at {} of shared memory, which has {} bytes",
                                   std::int64_t{address} - shared_window, memory_.size()));
    std::uint16_t bits;
    std::memcpy(&bits, memory_.data() + (address - shared_window), 2);
    return bits;
  }

 private:
  static std::uint32_t field(std::uint64_t descriptor, int shift) {
    return static_cast<std::uint32_t>(descriptor >> shift & 0x3fff) * 16;
  }

  const std::vector<unsigned char>& memory_;
  std::uint32_t start_, leading_, stride_;
  bool mn_major_;
};

// Position of an accumulator. Four consecutive threads hold a row of eight columns, two each; then
// come the warp's 8 rows, the 8 below, and the next eight columns.
int d_row(int thread, int i) { return 16 * (thread >> 5) + ((thread >> 2) & 7) + ((i & 2) << 2); }
int d_column(int thread, int i) { return (i >> 2 << 3) + ((thread & 3) << 1) + (i & 1); }

// Position of a 32-bit register of A: as above; 1 and 3 are eight rows on, 2 and 3 eight columns.
int a_row(int thread, int i) { return 16 * (thread >> 5) + ((thread >> 2) & 7) + ((i & 1) << 3); }
int a_column(int thread, int i) { return ((thread & 3) << 1) + ((i & 2) << 2); }

bool same(const WgmmaProduct& a, const WgmmaProduct& b) {
  return a.bf16 == b.bf16 && a.columns == b.columns && a.a_is_mn_major == b.a_is_mn_major &&
         a.b_is_mn_major == b.b_is_mn_major && a.accumulate == b.accumulate &&
         (a.a == nullptr) == (b.a == nullptr) && a.a_descriptor == b.a_descriptor &&
         a.b_descriptor == b.b_descriptor;
}

using Products = std::vector<WgmmaProduct>;

struct Matrices {
  float a[wgmma_rows][kProductDepth], b[kProductDepth][max_columns], d[wgmma_rows][max_columns];
};

void multiply(const std::array<const Products*, wgmma_threads>& threads, std::size_t which,
              const std::vector<unsigned char>& memory) {
  const WgmmaProduct& product = (*threads[0])[which];
  static thread_local Matrices matrices;
  auto& [a, b, d] = matrices;
  if (product.a == nullptr) {
    const SharedOperand operand(memory, product.a_descriptor, product.a_is_mn_major);
    for (int row = 0; row < wgmma_rows; ++row)
      for (int k = 0; k < kProductDepth; ++k) a[row][k] = value(operand.at(row, k), product.bf16);
  } else {
    for (int t = 0; t < wgmma_threads; ++t)
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t pair = (*threads[t])[which].a[i];
        a[a_row(t, i)][a_column(t, i)] = value(static_cast<std::uint16_t>(pair), product.bf16);
        a[a_row(t, i)][a_column(t, i) + 1] =
            value(static_cast<std::uint16_t>(pair >> 16), product.bf16);
      }
  }
  const SharedOperand operand(memory, product.b_descriptor, product.b_is_mn_major);
  for (int k = 0; k < kProductDepth; ++k)
    for (int column = 0; column < product.columns; ++column)
      b[k][column] = value(operand.at(column, k), product.bf16);
  const int held = product.columns / 2;  // accumulators of a thread
  for (int t = 0; t < wgmma_threads; ++t) {
    const float* const of_thread = (*threads[t])[which].d;
    for (int i = 0; i < held; ++i)
      d[d_row(t, i)][d_column(t, i)] = product.accumulate ? of_thread[i] : 0.0f;
  }
  add_products(a[0], b[0], d[0], wgmma_rows, product.columns, max_columns);
  for (int t = 0; t < wgmma_threads; ++t) {
    float* const of_thread = (*threads[t])[which].d;
    for (int i = 0; i < held; ++i) of_thread[i] = d[d_row(t, i)][d_column(t, i)];
  }
}

// Whether products come late. With copies at once, they still do in the ascending order, in which a
// producer goes first. So a buffer that is given back before the product that reads it is over is
// then overwritten.
bool products_late() { return schedule().async_late || schedule().order == ThreadOrder::ascending; }

// Perform the products with all threads of the warpgroup; the first does the work of all.
void perform(HopperThread& mine, const Products& products) {
  const Products* pointer = &products;
  const unsigned char* all = warpgroup_exchange("wgmma", &pointer, sizeof(pointer));
  if (thread_in_block() % wgmma_threads == 0) {
    std::array<const Products*, wgmma_threads> threads;
    std::memcpy(threads.data(), all, sizeof(threads));
    for (const Products* others : threads) {
      bool agree = others->size() == products.size();
      for (std::size_t i = 0; agree && i < products.size(); ++i)
        agree = same(products[i], (*others)[i]);
      if (!agree) throw ModelError("wgmma: the warpgroup's threads ask for different products");
    }
    for (std::size_t i = 0; i < products.size(); ++i) multiply(threads, i, mine.block->async_view);
  }
  warpgroup_exchange("wgmma, done", nullptr, 0);
}

}  // namespace

void HopperThread::end() {
  if (!open.empty()) throw ModelError("ends with wgmma products that it did not commit");
  if (!groups.empty()) throw ModelError("ends with wgmma products that it did not wait for");
  // What was read is written in any case.
  if (!open_writes.empty() || !std::all_of(writes.begin(), writes.end(),
                                           [](const auto& each) { return each->was_awaited; }))
    throw ModelError("ends with bulk writes that it did not wait for");
}

HopperThread& hopper_thread() {
  std::unique_ptr<ThreadState>& state = thread_state();
  if (state == nullptr) {
    auto thread = std::make_unique<HopperThread>();
    thread->block = std::static_pointer_cast<HopperBlock>(block_state().lock());
    if (thread->block == nullptr) block_state() = thread->block = new_block();
    state = std::move(thread);
  }
  ThreadState& mine = *state;
  if (typeid(mine) != typeid(HopperThread))
    throw ModelError("a thread uses cp.async and Hopper's instructions");
  return static_cast<HopperThread&>(mine);
}

void check_shared(const void* begin, std::size_t bytes, std::size_t alignment, const char* what) {
  const std::int64_t place = static_cast<const unsigned char*>(begin) - shared_bytes();
  const auto size = static_cast<std::int64_t>(shared_size());
  if (place < 0 || place + static_cast<std::int64_t>(bytes) > size)
    throw ModelError(fmt::format("{} of {} bytes at {} of shared memory, which has {} bytes", what,
                                 bytes, place, size));
  if (place % static_cast<std::int64_t>(alignment) != 0)
    throw ModelError(
        fmt::format("{} at {} of shared memory, not a multiple of {}", what, place, alignment));
}

void stmatrix_x4_trans(void* shared_column, const std::uint32_t (&d)[4]) {
  check_shared(shared_column, 16, 16, "stmatrix's column");
  std::uint32_t all[32][4];
  std::memcpy(all, warp_exchange("stmatrix.x4.trans", d, sizeof(d)), sizeof(all));
  const int square = lane() / 8, column = lane() % 8;
  std::uint16_t values[8];
  for (int row = 0; row < 8; ++row)
    values[row] =
        static_cast<std::uint16_t>(all[4 * row + column / 2][square] >> (16 * (column % 2)));
  std::memcpy(shared_column, values, sizeof(values));
  stored_for_async(shared_column, sizeof(values));
}

void wgmma_fence() { hopper_thread().fenced = true; }

void wgmma(const WgmmaProduct& product) {
  HopperThread& mine = hopper_thread();
  if (!mine.fenced) throw ModelError("wgmma without a wgmma_fence before it");
  if (product.columns % 8 != 0 || product.columns < 8 || max_columns < product.columns)
    throw ModelError(fmt::format("wgmma of {} columns", product.columns));
  mine.open.push_back(product);
}

void wgmma_commit() {
  HopperThread& mine = hopper_thread();
  mine.groups.push_back(std::move(mine.open));
  mine.open.clear();
  if (products_late()) return;
  perform(mine, mine.groups.back());
  mine.groups.back().clear();
}

void wgmma_wait(int pending) {
  HopperThread& mine = hopper_thread();
  while (static_cast<int>(mine.groups.size()) > pending) {
    if (!mine.groups.front().empty()) perform(mine, mine.groups.front());
    mine.groups.pop_front();
  }
  mine.fenced = false;
}

}  // namespace ringscope::cuda::model
