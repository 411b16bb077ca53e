#include "cuda/model/tensor_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "cuda/model/hopper.h"

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
  std::array<std::vector<std::uintptr_t>, 8> in_group;
  std::size_t most = 1;
  for (const unsigned char* row : rows) {
    const auto address = reinterpret_cast<std::uintptr_t>(row);
    std::vector<std::uintptr_t>& group = in_group[address / chunk_bytes % 8];
    if (std::find(group.begin(), group.end(), address) == group.end()) group.push_back(address);
    most = std::max(most, group.size());
  }
  return static_cast<int>(most) - 1;
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

void mma_m16n8k16(float* d, const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  DType dtype) {
  const auto value = [dtype](std::uint32_t bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    return dtype == DType::bf16 ? bf16{half}.to_float() : f16{half}.to_float();
  };
  // One lane's fragments: its registers in order, the lower half of a register first.
  struct Fragments {
    float a[8];
    float b[4];
  } mine;
  for (int i = 0; i < 8; ++i) mine.a[i] = value(a[i / 2] >> (i % 2 * 16));
  for (int i = 0; i < 4; ++i) mine.b[i] = value((i < 2 ? b0 : b1) >> (i % 2 * 16));
  const unsigned char* given = warp_exchange(
      dtype == DType::bf16 ? "mma.m16n8k16.bf16" : "mma.m16n8k16.f16", &mine, sizeof mine);
  const auto* const of_lane = reinterpret_cast<const Fragments*>(given);

  // The four lanes of a quad hold one row of A (and, in a2, a3, a6, a7, the row 8 below). Each has
  // two k below 8 and two from 8 on. Likewise they hold one column of B.
  const Fragments* const row = of_lane + lane() / 4 * 4;
  const Fragments* const column = of_lane + lane() % 4 * 2 * 4;
  float left[2][16], right[2][16];
  for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 2; ++i) {
      left[i][k] = row[k / 2 % 4].a[k / 8 * 4 + 2 * i + k % 2];
      right[i][k] = column[4 * i + k / 2 % 4].b[k / 8 * 2 + k % 2];
    }
  for (int i = 0; i < 4; ++i) {
    const float *const of_a = left[i / 2], *const of_b = right[i % 2];
    if (sums() == Sums::truncated)
      d[i] = truncated_sum(d[i], of_a, of_b, 16);
    else
      for (int k = 0; k < 16; ++k) d[i] += of_a[k] * of_b[k];
  }
}

std::int64_t bank_conflicts() { return conflicts; }

}  // namespace ringscope::cuda::model
