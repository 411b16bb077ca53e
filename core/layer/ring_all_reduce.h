// The sum of the ranks' arrays, on every rank: of gradients, whose weights every rank holds.
//
// Two rounds of N-1 hops over the same neighbours as attention's. The array is cut into N chunks.
// In the first round (reduce-scatter) a chunk goes round and collects a rank's share at every stop;
// in the second (all-gather) the finished chunks go round once more. A rank sends all chunks but
// one in each round, 2 (N-1)/N of the array, however many ranks there are.
//
// A chunk is added up in the order of the ring, from the rank of the chunk's number on, and only
// there: all ranks get the same bits, every time. But the order is the number of ranks' business,
// so another world_size rounds otherwise.
#pragma once

#include "core/base/buffer.h"
#include "core/ring/communicator.h"

namespace ringscope {

class RingAllReduce {
 public:
  // For arrays of `size` values.
  RingAllReduce(Index size, int world_size, MemoryMeter* meter);

  // values[i] becomes the sum of all ranks' values[i], which all have to call it. Throws RunError
  // that names rank and hop. Hops go as gradients (Payload::dkv) of owner: the chunk's number.
  void add_up(Communicator& comm, float* values);

  // Bytes that `rank` sends in it, by formula.
  static Index bytes_sent(Index size, int world_size, int rank);

 private:
  Index size_;
  Buffer<float> incoming_;  // a chunk
};

}  // namespace ringscope
