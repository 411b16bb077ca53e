// F and B of the machine that this runs on, for the CPU backend and threads: the two numbers that
// the closed forms need, from the code whose time they are to predict; and the finer ones that a
// simulation of this machine takes.
#pragma once

#include "core/base/math.h"
#include "core/cost/cpu_figures.h"
#include "core/cost/rates.h"

namespace ringscope {

// Attends blocks of heads of `head_dim` values, forward and backward, for about 0.6 s each on
// `threads` threads at once (so that what they share is shared), and then moves blocks around a
// ring of two threads: large ones for the rate, small ones for the latency. Takes about 1.5 s; the
// fastest of many repetitions counts. Rates are those of one thread, the slowest. Throws
// std::bad_alloc, and RunError or std::system_error when a thread can't be started.
Rates measure_rates(Index head_dim, DType dtype, int threads);

struct CpuMeasurement {
  Index head_dim = 64;
  DType dtype = DType::f32;
  bool backward = false;
  int threads = 1;  // that compute at once
  // Of the ring whose hops are measured, and the bytes of its blocks; of 1 rank: no hops.
  int world_size = 1;
  Index block_bytes = 0;
  double seconds = 0.6;  // of a core, for each pass and thread; half as long for the hops
};

// The same block as a whole and in pieces (kernel_bench.h), in turn, the fastest of each; the
// differences are what rows and keys cost. Throws as measure_rates.
CpuFigures measure_cpu(const CpuMeasurement& what);

// Of a ring of threads that does nothing else, by the processor time of the whole process.
HopFigures measure_hops(int world_size, Index block_bytes, double seconds);

}  // namespace ringscope
