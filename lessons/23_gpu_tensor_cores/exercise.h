// Exercise 23: a pipeline.
//
// A block has one producer, three buffers in shared memory and 64 consumers. The producer fetches
// `tiles` tiles of a matrix, tile t into buffer t mod 3; consumer c adds up values c, c + 64, ...
// of every tile. Each buffer has two barriers: a phase of `full` ends with one arrival (the
// producer's) when the announced bytes have landed, a phase of `empty` with the arrivals of all 64
// consumers.
//
//   ptx::barrier_wait(barrier, parity)              until the phase of that parity is over: 0 for
//                                                   a barrier's first phase, then 1, 0, 1, ...; a
//                                                   fresh barrier takes parity 1 for over
//   ptx::barrier_arrive(barrier)
//   ptx::barrier_arrive_expecting(barrier, bytes)   announces the bytes of a copy, then arrives
//   ptx::tma_load(to, matrix, 0, row, 0, barrier)   starts the copy of a tile, 8 rows from `row` on
#pragma once

#include "lessons/book/gpu.h"

namespace ptx = ringscope::cuda::ptx;
using Buffers = ringscope::lessons::Stages<3>;

// By one thread.
inline void produce(Buffers& shared, const ringscope::cuda::TensorMap& matrix, int tiles) {
  for (int t = 0; t < tiles; ++t)  // not yet right: it waits for nobody and announces nothing
    ptx::tma_load(shared.tile[t % 3], matrix, 0, 8 * t, 0, shared.full[t % 3]);
}

// By consumer 0 to 63.
inline float consume(Buffers& shared, int tiles, int consumer) {
  float sum = 0;
  for (int t = 0; t < tiles; ++t)  // not yet right: has the tile landed, and who learns of the end?
    for (int i = consumer; i < 512; i += 64) sum += shared.tile[t % 3][i].to_float();
  return sum;
}
