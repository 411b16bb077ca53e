#include <fmt/format.h>

#include <cstring>

#include "core/base/dtype.h"
#include "cuda/model/hopper.h"

namespace ringscope::cuda::model {
namespace {

constexpr int warpgroup = 128, rows = 64, depth = 16, max_columns = 256;

// The block that runs on this OS thread. Its threads own it.
std::weak_ptr<HopperBlock>& current_block() {
  static thread_local std::weak_ptr<HopperBlock> block;
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
  float a[rows][depth], b[depth][max_columns], d[rows][max_columns];
};

void multiply(const std::array<const Products*, warpgroup>& threads, std::size_t which,
              const std::vector<unsigned char>& memory) {
  const WgmmaProduct& product = (*threads[0])[which];
  static thread_local Matrices matrices;
  auto& [a, b, d] = matrices;
  if (product.a == nullptr) {
    const SharedOperand operand(memory, product.a_descriptor, product.a_is_mn_major);
    for (int row = 0; row < rows; ++row)
      for (int k = 0; k < depth; ++k) a[row][k] = value(operand.at(row, k), product.bf16);
  } else {
    for (int t = 0; t < warpgroup; ++t)
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t pair = (*threads[t])[which].a[i];
        a[a_row(t, i)][a_column(t, i)] = value(static_cast<std::uint16_t>(pair), product.bf16);
        a[a_row(t, i)][a_column(t, i) + 1] =
            value(static_cast<std::uint16_t>(pair >> 16), product.bf16);
      }
  }
  const SharedOperand operand(memory, product.b_descriptor, product.b_is_mn_major);
  for (int k = 0; k < depth; ++k)
    for (int column = 0; column < product.columns; ++column)
      b[k][column] = value(operand.at(column, k), product.bf16);
  for (int t = 0; t < warpgroup; ++t)
    for (int i = 0; i < product.columns / 2; ++i)
      d[d_row(t, i)][d_column(t, i)] = product.accumulate ? (*threads[t])[which].d[i] : 0.0f;
  for (int row = 0; row < rows; ++row)
    for (int k = 0; k < depth; ++k)
      for (int column = 0; column < product.columns; column += 8)
        for (int j = 0; j < 8; ++j) d[row][column + j] += a[row][k] * b[k][column + j];
  for (int t = 0; t < warpgroup; ++t)
    for (int i = 0; i < product.columns / 2; ++i)
      (*threads[t])[which].d[i] = d[d_row(t, i)][d_column(t, i)];
}

// Whether products come late. With copies at once, they still do in the ascending order, in which a
// producer goes first. So a buffer that is given back before the product that reads it is over is
// then overwritten.
bool products_late() { return schedule().async_late || schedule().order == ThreadOrder::ascending; }

// Perform the products with all threads of the warpgroup; the first does the work of all.
void perform(HopperThread& mine, const Products& products) {
  const Products* pointer = &products;
  const unsigned char* all = warpgroup_exchange("wgmma", &pointer, sizeof(pointer));
  if (thread_in_block() % warpgroup == 0) {
    std::array<const Products*, warpgroup> threads;
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
  if (!open_adds.empty() || !adds.empty())
    throw ModelError("ends with bulk additions that it did not wait for");
}

HopperThread& hopper_thread() {
  std::unique_ptr<ThreadState>& state = thread_state();
  if (state == nullptr) {
    auto thread = std::make_unique<HopperThread>();
    thread->block = current_block().lock();
    if (thread->block == nullptr) {
      thread->block = std::make_shared<HopperBlock>();
      thread->block->async_view.assign(shared_size(), 0xff);
      const int threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
      const int each = threads == 0 ? 0 : 65536 / threads / 8 * 8;
      thread->block->registers.assign(static_cast<std::size_t>((threads + 127) / 128),
                                      each < 256 ? each : 256);
      current_block() = thread->block;
    }
    state = std::move(thread);
  }
  auto* const mine = dynamic_cast<HopperThread*>(state.get());
  if (mine == nullptr) throw ModelError("a thread uses cp.async and Hopper's instructions");
  return *mine;
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
