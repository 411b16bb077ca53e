// The memory of a GPU model that counts how it is read. A lesson's kernel takes a Counted where
// CUDA has a pointer to floats.
//
// The 32 threads of a warp read together: their n-th accesses of one memory form one access of the
// warp. Counts per warp therefore mean something only if a warp's threads all take the same path.
// Two rules of the hardware give the cost of an access (CUDA C++ Programming Guide, "Device Memory
// Accesses" and "Shared Memory"): global memory is fetched in pieces of 32 bytes, and shared memory
// has 32 banks, word w in bank w mod 32, each of which serves one word at a time.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/attention/naive.h"
#include "core/base/math.h"
#include "core/run/rows.h"
#include "cuda/model/simt.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {

class MemoryCount {
 public:
  // Note an access of the kernel's running thread to `word` of an array that begins at a multiple
  // of 128 bytes.
  void note(Index word, bool is_read) {
    if (!cuda::model::in_kernel()) return;
    if (blockIdx.x != block_) finish_block();
    block_ = blockIdx.x;
    values_read_ += is_read;
    const auto warp = static_cast<std::size_t>(cuda::model::warp());
    const auto lane = static_cast<std::size_t>(cuda::model::lane());
    if (warps_.size() <= warp) warps_.resize(warp + 1);
    Warp& mine = warps_[warp];
    const std::size_t number = mine.accesses_of[lane]++;
    if (mine.accesses.size() <= number) mine.accesses.resize(number + 1);
    Access& access = mine.accesses[number];
    access.words[access.lanes++] = word;
  }

  // Return how many values the threads read, and their bytes.
  Index values_read() const { return values_read_; }
  double bytes_read() const { return 4.0 * static_cast<double>(values_read_); }
  // Count the reads and writes of whole warps, and their costs: pieces of 32 bytes in global
  // memory, or rounds at the banks in shared memory (1 per access if no bank must serve two words).
  Index accesses() { return finish_block(), accesses_; }
  Index pieces() { return finish_block(), pieces_; }
  Index rounds() { return finish_block(), rounds_; }

 private:
  struct Access {
    std::array<Index, 32> words;
    std::size_t lanes = 0;
  };
  struct Warp {
    std::array<std::size_t, 32> accesses_of{};  // by lane
    std::vector<Access> accesses;
  };

  void finish_block() {
    for (Warp& warp : warps_)
      for (Access& access : warp.accesses) add(access);
    warps_.clear();
  }

  void add(Access& access) {
    Index* const begin = access.words.data();
    std::sort(begin, begin + access.lanes);
    std::array<int, 32> of_bank{};
    Index last_word = -1, last_piece = -1;
    for (const Index* word = begin; word != begin + access.lanes; ++word) {
      of_bank[static_cast<std::size_t>(*word % 32)] += *word != last_word;
      pieces_ += *word / 8 != last_piece;
      last_word = *word;
      last_piece = *word / 8;
    }
    ++accesses_;
    rounds_ += *std::max_element(of_bank.begin(), of_bank.end());
  }

  std::vector<Warp> warps_;  // of the running block
  unsigned block_ = 0;
  Index values_read_ = 0, accesses_ = 0, pieces_ = 0, rounds_ = 0;
};

// A pointer to floats in a memory that counts.
class Counted {
 public:
  Counted(float* array, MemoryCount& count) : array_(array), count_(&count) {}

  // Stands for the float itself.
  class Value {
   public:
    Value(float& value, Index word, MemoryCount& count)
        : value_(value), word_(word), count_(count) {}
    operator float() const {
      count_.note(word_, true);
      return value_;
    }
    void operator=(float value) const {
      count_.note(word_, false);
      value_ = value;
    }
    void operator=(const Value& other) const { *this = static_cast<float>(other); }

   private:
    float& value_;
    Index word_;
    MemoryCount& count_;
  };

  Value operator[](Index i) const { return {array_[first_ + i], first_ + i, *count_}; }
  Counted operator+(Index words) const {
    Counted moved = *this;
    moved.first_ += words;
    return moved;
  }

 private:
  float* array_;
  MemoryCount* count_;
  Index first_ = 0;
};

// Count one access of a warp in which thread i reads word word_of(i), or stride * i.
template <class WordOf>
MemoryCount access_of(const WordOf& word_of) {
  MemoryCount count;
  cuda::model::run_grid(1, 32, 0, [&] { count.note(word_of(cuda::model::lane()), true); });
  return count;
}
inline MemoryCount access_with_stride(Index stride) {
  return access_of([stride](int lane) { return stride * lane; });
}

// Return the running block's shared memory as floats.
inline Counted shared_floats(MemoryCount& count) {
  return {reinterpret_cast<float*>(cuda::model::shared_bytes()), count};
}

// ---
// A lesson's attention kernel runs on the model of a GPU, which counts its reads.

// A kernel's arguments: one head's Q, K, V and out, each [seqlen, head_dim], and the block's shared
// memory, filled with NaN.
struct GpuArrays {
  const float* q;
  Counted k, v;
  float* out;
  Counted shared;
};

struct GpuRun {
  MemoryCount global, shared;  // of K and V in global memory; of shared memory
  std::vector<float> out;      // NaN if never written
};

struct GpuGrid {
  int blocks, threads;
  Index shared_floats = 0;  // per block
};

// Run kernel(arrays) in every thread of the grid.
template <class Kernel>
GpuRun run_kernel(const Kernel& kernel, const GpuGrid& grid, const AttentionInputs& in,
                  cuda::model::ThreadOrder order = cuda::model::ThreadOrder::ascending) {
  GpuRun run;
  std::vector<float> k = in.k, v = in.v;
  run.out.assign(in.q.size(), NAN);
  cuda::model::set_schedule({.order = order});
  cuda::model::run_grid(
      grid.blocks, grid.threads, static_cast<std::size_t>(grid.shared_floats) * sizeof(float), [&] {
        kernel(GpuArrays{in.q.data(), Counted(k.data(), run.global), Counted(v.data(), run.global),
                         run.out.data(), shared_floats(run.shared)});
      });
  cuda::model::set_schedule({});
  return run;
}

// Count the rows of out that differ from naive attention (softmax_scale 1, one head) by over 1e-5.
inline int wrong_rows(const GpuRun& run, const AttentionInputs& in, Index head_dim) {
  const auto size = static_cast<Index>(in.q.size());
  const AttentionShape shape{.seqlen = size / head_dim, .head_dim = head_dim};
  const auto exact = naive_attention<float>(shape, Mask{.seqlen = shape.seqlen}, 1, in.q.data(),
                                            in.k.data(), in.v.data(), nullptr);
  int wrong = 0;
  for (Index first = 0; first < size; first += head_dim) {
    bool right = true;
    for (Index i = first; i < first + head_dim; ++i)
      right = right && std::abs(run.out[static_cast<std::size_t>(i)] -
                                exact.out[static_cast<std::size_t>(i)]) <= 1e-5f;
    wrong += !right;
  }
  return wrong;
}

// Read a row of values into registers.
template <class Pointer, std::size_t kCount>
void read(float (&to)[kCount], Pointer from) {
  for (std::size_t x = 0; x < kCount; ++x) to[x] = from[static_cast<int>(x)];
}

// A query row and its carried state: m = row_max, l = row_sum, out is unnormalised.
template <int kDim>
struct GpuRow {
  float q[kDim], out[kDim] = {}, m = -INFINITY, l = 0;

  template <class Pointer>           // float* or Counted
  void meet(Pointer k, Pointer v) {  // attends one key
    float score = 0;
    for (int x = 0; x < kDim; ++x) score += q[x] * k[x];
    const float new_m = fmaxf(m, score), factor = expf(m - new_m), p = expf(score - new_m);
    for (int x = 0; x < kDim; ++x) out[x] = out[x] * factor + p * v[x];
    l = l * factor + p;
    m = new_m;
  }
  void write(float* to) const {
    for (int x = 0; x < kDim; ++x) to[x] = out[x] / l;
  }
};

// Call CUDA's __syncthreads(), unless `number` is the barrier that a lesson leaves out.
inline int left_out = 0;
inline void barrier(int number) {
  if (number != left_out) __syncthreads();
}

}  // namespace ringscope::lessons
