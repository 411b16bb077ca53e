// Memory of the model of a GPU that counts how it is read. A lesson's kernel has a Counted where
// CUDA has a pointer to floats.
//
// The 32 threads of a warp read together: their n-th accesses of one memory are one access of the
// warp, so what is counted by warps means something when a warp's threads all take the same way.
// Two rules of the hardware say what such an access costs (CUDA C++ Programming Guide, "Device
// Memory Accesses" and "Shared Memory"): global memory is fetched in pieces of 32 bytes, and shared
// memory has 32 banks, word w in bank w mod 32, each of which serves one word at a time.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/math.h"
#include "cuda/model/simt.h"

namespace ringscope::lessons {

class MemoryCount {
 public:
  // By the running thread of a kernel: word `word` of an array that begins at a multiple of 128
  // bytes.
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

  // Values that threads read, and their bytes.
  Index values_read() const { return values_read_; }
  double bytes_read() const { return 4.0 * static_cast<double>(values_read_); }
  // Reads and writes of whole warps, and what they cost: pieces of 32 bytes, were it global memory;
  // rounds at the banks, were it shared memory (1 an access where no bank is asked for two words).
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

  std::vector<Warp> warps_;  // of the block that runs
  unsigned block_ = 0;
  Index values_read_ = 0, accesses_ = 0, pieces_ = 0, rounds_ = 0;
};

// A pointer to floats in a memory that counts.
class Counted {
 public:
  Counted(float* array, MemoryCount& count) : array_(array), count_(&count) {}

  // What stands for the float itself.
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

// What one access of a warp costs whose thread i wants word stride * i.
inline MemoryCount access_with_stride(Index stride) {
  MemoryCount count;
  cuda::model::run_grid(1, 32, 0, [&] { count.note(stride * cuda::model::lane(), true); });
  return count;
}

// The shared memory of the block that runs, as floats.
inline Counted shared_floats(MemoryCount& count) {
  return {reinterpret_cast<float*>(cuda::model::shared_bytes()), count};
}

}  // namespace ringscope::lessons
