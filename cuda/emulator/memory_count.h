// Memory that counts how a kernel reads and writes it.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "core/base/math.h"
#include "cuda/emulator/simt.h"

namespace ringscope::cuda::model {

// Counts how the threads of a grid, whose blocks are whole warps, read and write a memory.
//
// The 32 threads of a warp read together: their n-th accesses of one memory form one access of the
// warp. Counts per warp therefore mean something only if a warp's threads all take the same path.
// Two rules of the hardware give the cost of an access (CUDA C++ Programming Guide, "Device Memory
// Accesses" and "Shared Memory"): global memory is fetched in pieces of 32 bytes, and shared memory
// has 32 banks, word w in bank w mod 32, each of which serves one word at a time.
class MemoryCount {
 public:
  // Note an access of the kernel's running thread to `word` of an array that begins at a multiple
  // of 128 bytes.
  void note(Index word, bool is_read) {
    if (!in_kernel()) return;
    const std::size_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (words_.size() <= thread) words_.resize((thread / 32 + 1) * 32);
    words_[thread].push_back(word);
    values_read_ += is_read;
  }

  // Return how many values the threads read, and their bytes.
  Index values_read() const { return values_read_; }
  double bytes_read() const { return 4.0 * static_cast<double>(values_read_); }
  // Count the reads and writes of whole warps, and their costs: pieces of 32 bytes in global
  // memory, or rounds at the banks in shared memory (1 per access if no bank must serve two words).
  Index accesses() const { return costs().accesses; }
  Index pieces() const { return costs().pieces; }
  Index rounds() const { return costs().rounds; }

 private:
  struct Costs {
    Index accesses = 0, pieces = 0, rounds = 0;
  };

  Costs costs() const {
    Costs costs;
    std::vector<Index> words;
    for (std::size_t warp = 0; warp < words_.size(); warp += 32)
      for (std::size_t number = 0;; ++number) {
        words.clear();
        for (std::size_t thread = warp; thread < warp + 32; ++thread)
          if (number < words_[thread].size()) words.push_back(words_[thread][number]);
        if (words.empty()) break;
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        std::array<Index, 32> of_bank{};
        Index last_piece = -1;
        for (const Index word : words) {
          ++of_bank[static_cast<std::size_t>(word % 32)];
          costs.pieces += word / 8 != last_piece;
          last_piece = word / 8;
        }
        ++costs.accesses;
        costs.rounds += *std::max_element(of_bank.begin(), of_bank.end());
      }
    return costs;
  }

  std::vector<std::vector<Index>> words_;  // of each thread of the grid, in order
  Index values_read_ = 0;
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

// Count one access of a warp in which thread i reads word word_of(i).
template <class WordOf>
MemoryCount access_of(const WordOf& word_of) {
  MemoryCount count;
  run_grid(1, 32, 0, [&] { count.note(word_of(lane()), true); });
  return count;
}

// Return the running block's shared memory as floats.
inline Counted shared_floats(MemoryCount& count) {
  return {reinterpret_cast<float*>(shared_bytes()), count};
}

}  // namespace ringscope::cuda::model
