#include "cuda/emulator/tensor_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "cuda/emulator/hopper.h"

namespace ringscope::cuda::model {
namespace {

constexpr std::size_t chunk_bytes = 16;

struct AsyncCopy {
  void* shared;
  const void* global;
  bool valid;

  void perform() const {
    if (valid) {
      std::memcpy(shared, global, chunk_bytes);
    } else {
      std::memset(shared, 0, chunk_bytes);
    }
  }
};

// The copies of one thread: the open group, and the committed groups.
class CopyGroups : public ThreadState {
 public:
  void add(const AsyncCopy& copy) {
    if (!schedule().async_late) copy.perform();
    open_.push_back(copy);
  }
  void commit() {
    committed_.push_back(std::move(open_));
    open_.clear();
  }
  void wait(int pending) {
    while (static_cast<int>(committed_.size()) > pending) {
      if (schedule().async_late)
        for (const AsyncCopy& copy : committed_.front()) copy.perform();
      committed_.pop_front();
    }
  }
  void end() override {
    const auto has_copies = [](const std::vector<AsyncCopy>& group) { return !group.empty(); };
    if (has_copies(open_) || std::any_of(committed_.begin(), committed_.end(), has_copies))
      throw ModelError("has ended while cp.async copies of its own were under way");
  }

 private:
  std::vector<AsyncCopy> open_;
  std::deque<std::vector<AsyncCopy>> committed_;  // oldest first
};

CopyGroups& copy_groups() {
  std::unique_ptr<ThreadState>& state = thread_state();
  if (!state) state = std::make_unique<CopyGroups>();
  return dynamic_cast<CopyGroups&>(*state);
}

std::atomic<std::int64_t> conflicts{0};
std::atomic<Sums> chosen_sums{Sums::one_by_one};

// Return how many of the square's 8 rows lie in the same banks, minus one.
int conflicts_of(const std::array<const unsigned char*, 8>& rows) {
  std::array<int, 8> in_group{};
  for (auto row = rows.begin(); row != rows.end(); ++row)
    if (std::find(rows.begin(), row, *row) == row)
      ++in_group[reinterpret_cast<std::uintptr_t>(*row) / chunk_bytes % 8];
  return *std::max_element(in_group.begin(), in_group.end()) - 1;
}

}  // namespace

void set_sums(Sums sums) { chosen_sums = sums; }
Sums sums() { return chosen_sums; }

float truncated_sum(float c, const float* a, const float* b, int count) {
  for (int group = 0; group < count; group += kTruncatedGroup) {
    std::array<double, kTruncatedGroup + 1> terms;  // of which f64 holds every product
    terms[kTruncatedGroup] = c;
    double plain = c;
    int exponent = std::numeric_limits<int>::min();
    for (int k = 0; k < kTruncatedGroup; ++k)
      plain += terms[static_cast<std::size_t>(k)] = double{a[group + k]} * b[group + k];
    for (const double term : terms)
      if (term != 0) exponent = std::max(exponent, std::ilogb(term));
    if (!std::isfinite(plain)) {
      c = static_cast<float>(plain);
      continue;
    }
    double sum = 0;  // in units of the last bit of the largest term
    for (const double term : terms)
      if (term != 0) sum += std::trunc(std::ldexp(term, 23 - exponent));
    if (sum != 0) sum = std::ldexp(sum, exponent - 23);
    c = static_cast<float>(sum);
    if (std::abs(double{c}) > std::abs(sum)) c = std::nextafter(c, 0.0f);
  }
  return c;
}

void cp_async_16(void* shared, const void* global, bool valid) {
  check_shared(shared, chunk_bytes, chunk_bytes, "cp.async's target");
  if (reinterpret_cast<std::uintptr_t>(global) % chunk_bytes != 0)
    throw ModelError("cp.async: a global address that is not a multiple of 16");
  const auto* const source = static_cast<const unsigned char*>(global);
  if (valid && shared_bytes() <= source && source < shared_bytes() + shared_size())
    throw ModelError("cp.async: the source lies in shared memory");
  copy_groups().add({shared, global, valid});
}

void cp_async_commit() { copy_groups().commit(); }

void cp_async_wait(int pending) { copy_groups().wait(pending); }

void ldmatrix_x4(std::uint32_t (&r)[4], const void* shared_row, bool transposed) {
  check_shared(shared_row, chunk_bytes, chunk_bytes, "ldmatrix's row");
  const unsigned char* given = warp_exchange(transposed ? "ldmatrix.x4.trans" : "ldmatrix.x4",
                                             &shared_row, sizeof shared_row);
  const auto row_of = [&](int square, int row) {
    const unsigned char* address;
    std::memcpy(&address, given + (8 * square + row) * sizeof address, sizeof address);
    return address;
  };
  const auto value = [&](int square, int row, int column) -> std::uint32_t {
    std::uint16_t bits;
    std::memcpy(&bits, row_of(square, row) + 2 * column, sizeof bits);
    return bits;
  };
  const int across = lane() / 4, along = 2 * (lane() % 4);
  for (int square = 0; square < 4; ++square) {
    r[square] = transposed ? value(square, along, across) | value(square, along + 1, across) << 16
                           : value(square, across, along) | value(square, across, along + 1) << 16;
    if (lane() != 0) continue;
    std::array<const unsigned char*, 8> rows;
    for (int row = 0; row < 8; ++row) rows[row] = row_of(square, row);
    conflicts += conflicts_of(rows);
  }
}

void add_products(const float* a, const float* b, float* d, int rows, int columns, int stride) {
  if (sums() == Sums::truncated) {
    for (int column = 0; column < columns; ++column) {
      std::array<float, kProductDepth> of_column;
      for (int k = 0; k < kProductDepth; ++k) of_column[k] = b[k * stride + column];
      for (int row = 0; row < rows; ++row) {
        float& sum = d[row * stride + column];
        sum = truncated_sum(sum, a + row * kProductDepth, of_column.data(), kProductDepth);
      }
    }
    return;
  }
  for (int row = 0; row < rows; ++row)
    for (int k = 0; k < kProductDepth; ++k)
      for (int column = 0; column < columns; column += 8)
        for (int j = 0; j < 8; ++j)
          d[row * stride + column + j] += a[row * kProductDepth + k] * b[k * stride + column + j];
}

namespace {

// A lane's part of the matrices of mma.m16n8k16: its registers.
struct Fragments {
  std::uint32_t a[4], b[2];  // two values each, the lower half first
  float d[4];
};

// Multiply what the 32 lanes have given, for all of them.
template <class Element>
void multiply_fragments(unsigned char* given) {
  constexpr int kRows = 16, kColumns = 8;
  const auto value = [](std::uint32_t pair, int which) {
    return Element{static_cast<std::uint16_t>(pair >> (16 * which))}.to_float();
  };
  float a[kRows][kProductDepth], b[kProductDepth][kColumns], d[kRows][kColumns];
  // The four lanes of a quad hold a row of A, and the row 8 below; a column of B; and of D, the same two
  // rows. A register has two columns of A, or rows of B, next to each other; the next half of the
  // registers those 8 further on.
  auto* const lanes = reinterpret_cast<Fragments*>(given);
  for (int lane = 0; lane < 32; ++lane) {
    const Fragments& mine = lanes[lane];
    const int quad = lane / 4, pair = 2 * (lane % 4);
    for (int i = 0; i < 2; ++i) {
      for (int r = 0; r < 4; ++r) a[quad + r % 2 * 8][pair + r / 2 * 8 + i] = value(mine.a[r], i);
      for (int r = 0; r < 2; ++r) b[pair + 8 * r + i][quad] = value(mine.b[r], i);
      for (int r = 0; r < 2; ++r) d[quad + 8 * r][pair + i] = mine.d[2 * r + i];
    }
  }
  add_products(a[0], b[0], d[0], kRows, kColumns, kColumns);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) lanes[lane].d[i] = d[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
}

}  // namespace

void mma_m16n8k16(float* d, const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  DType dtype) {
  const bool is_bf16 = dtype == DType::bf16;
  const Fragments mine{{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  const unsigned char* const done =
      warp_exchange(is_bf16 ? "mma.m16n8k16.bf16" : "mma.m16n8k16.f16", &mine, sizeof mine, ~0u,
                    is_bf16 ? multiply_fragments<bf16> : multiply_fragments<f16>);
  std::memcpy(d, done + lane() * sizeof mine + offsetof(Fragments, d), sizeof mine.d);
}

std::int64_t bank_conflicts() { return conflicts; }

}  // namespace ringscope::cuda::model
