// The memory bill, asked of the allocator: this program counts every byte that operator new hands
// out.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "core/threads/generated_rows.h"
#include "core/threads/run.h"
#include "core/trace/recorder.h"
#include "tests/schemes.h"

namespace {

std::atomic<long> current_bytes{0}, peak_bytes{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const long size = static_cast<long>(malloc_usable_size(memory));
  const long now = current_bytes.fetch_add(size) + size;
  for (long peak = peak_bytes.load(); now > peak && !peak_bytes.compare_exchange_weak(peak, now);) {
  }
  return memory;
}

void* aligned(std::size_t size, std::align_val_t alignment) {
  const std::size_t step = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(step, (size + step - 1) / step * step));
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  current_bytes.fetch_sub(static_cast<long>(malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return counted(std::malloc(size == 0 ? 1 : size)); }
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return aligned(size, alignment);
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return aligned(size, alignment);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace ringscope {
namespace {

Problem config_of(Index seqlen, const Scheme* scheme, DType dtype, bool backward) {
  Problem config;
  config.shape = {1, 2, 1, seqlen, 4};
  config.dtype = dtype;
  config.mask = MaskSpec::parse("causal");
  config.partition = PartitionKind::zigzag;
  config.world_size = 4;
  config.scheme = scheme;
  config.backward = backward;
  return config;
}

Index output_bytes(const AttentionOutputs& outputs) {
  return 4 * static_cast<Index>(outputs.out.size() + outputs.lse.size() + outputs.dq.size() +
                                outputs.dk.size() + outputs.dv.size());
}

// Bytes at the peak of a run beyond its inputs, its outputs, and the sum of what its ranks may
// hold.
Index beyond_the_bill(const Problem& config) {
  const AttentionInputs inputs = random_inputs(config.shape, 71);
  const long before = current_bytes.load();
  peak_bytes.store(before);
  const RingRun run = run_on_threads(config, inputs);
  Index bill = output_bytes(run.outputs);
  for (int rank = 0; rank < config.world_size; ++rank) {
    bill += predicted_rank_bytes(config, rank);
    EXPECT_EQ(run.peak_bytes.at(rank), predicted_rank_bytes(config, rank)) << "rank " << rank;
  }
  const Index used = peak_bytes.load() - before;
  EXPECT_GE(used, bill);  // what is billed is also held
  return used - bill;
}

// The least of three runs: how often ranks had to wait, which is recorded, differs from run to run.
Index least_beyond_the_bill(const Problem& config) {
  return std::min({beyond_the_bill(config), beyond_the_bill(config), beyond_the_bill(config)});
}

// The count itself would see a single byte.
TEST(Recorder, AllocatesNothingWhileItRecords) {
  Recorder recorder(100, 10, 0);
  const long before = current_bytes.load();
  peak_bytes.store(before);
  for (int i = 0; i < 150; ++i) recorder.record(TraceEvent{.step = i});
  for (int i = 0; i < 12; ++i) recorder.record(SoftmaxSample{.step = i});
  EXPECT_EQ(peak_bytes.load(), before);
  const std::vector<int> values(10);
  EXPECT_GT(peak_bytes.load(), before);
}

class Memory : public testing::TestWithParam<std::tuple<const Scheme*, DType, bool>> {};

// What is not billed (events recorded, threads, bookkeeping) has nothing to do with the sequence.
// Rows x rows of a rank would be four times as much at twice the seqlen: megabytes, even at one byte
// a pair.
TEST_P(Memory, StaysWithinTheBillWhateverTheSeqlen) {
  const auto& [scheme, dtype, backward] = GetParam();
  const Index at_2048 = least_beyond_the_bill(config_of(2048, scheme, dtype, backward));
  const Index at_4096 = least_beyond_the_bill(config_of(4096, scheme, dtype, backward));
  EXPECT_LE(at_2048, 256 << 10);
  EXPECT_LE(at_4096, 256 << 10);
  EXPECT_LE(at_4096 - at_2048, 16 << 10);
}

INSTANTIATE_TEST_SUITE_P(All, Memory,
                         testing::Combine(testing::ValuesIn(kRunSchemes),
                                          testing::Values(DType::f32, DType::bf16),
                                          testing::Bool()),
                         [](const auto& tested) {
                           return std::string(name_of(std::get<0>(tested.param))) + "_" +
                                  std::string(name_of(std::get<1>(tested.param))) +
                                  (std::get<2>(tested.param) ? "_backward" : "_forward");
                         });

// The other bills, written out by hand: what a rank of c rows holds beyond its tile scratch.
TEST(Bill, IsWhatEachSchemeAndPassNeeds) {
  const Index n = 4, c = 512, heads = 2, heads_kv = 1, d = 4, storage = 2;
  const Index queries = c * heads * d, rows = c * heads, block = 2 * c * heads_kv * d;
  const Index forward = queries * (storage + 4) + rows * (4 + 8 + 4);  // Q, O; m, l, lse
  const Index backward = queries * (storage + 4) + rows * 4;           // dO, dQ; delta
  const auto bill = [&](const Scheme* scheme, bool with_backward, int world_size) {
    Problem config = config_of(c * world_size, scheme, DType::bf16, with_backward);
    config.world_size = world_size;
    Problem one_row = config;  // the same tile scratch, and one row instead of c
    one_row.shape.seqlen = world_size;
    return predicted_rank_bytes(config, 0) - predicted_rank_bytes(one_row, 0);
  };
  const auto without_one_row = [&](Index bytes) { return bytes / c * (c - 1); };
  EXPECT_EQ(bill(scheme_named("ring"), false, 4), without_one_row(forward + 2 * block * storage));
  // The own block, current, incoming; gradients being summed, being sent, incoming.
  EXPECT_EQ(bill(scheme_named("ring"), true, 4),
            without_one_row(forward + backward + 3 * block * (storage + 4)));
  // With two ranks the incoming block is the only other one.
  EXPECT_EQ(bill(scheme_named("ring"), true, 2),
            without_one_row(forward + backward + 2 * block * storage + 3 * block * 4));
  EXPECT_EQ(bill(scheme_named("ring"), true, 1),
            without_one_row(forward + backward + block * (storage + 4)));
  EXPECT_EQ(bill(scheme_named("allgather"), false, 4),
            without_one_row(forward + n * block * storage));
  EXPECT_EQ(bill(scheme_named("allgather"), true, 4),
            without_one_row(forward + backward + n * block * (storage + 4) + block * 4));
}

}  // namespace
}  // namespace ringscope
