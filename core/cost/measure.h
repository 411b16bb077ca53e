// F and B of the machine that this runs on, for the CPU backend and threads: the two numbers that
// the closed forms need, from the code whose time they are to predict.
#pragma once

#include "core/base/math.h"
#include "core/cost/rates.h"

namespace ringscope {

// Attends blocks of heads of `head_dim` values, forward and backward, for about 0.6 s each on
// `threads` threads at once (so that what they share is shared), and then moves blocks around a
// ring of two threads: large ones for the rate, small ones for the latency. Takes about 1.5 s; the
// fastest of many repetitions counts. Rates are those of one thread, the slowest. Throws
// std::bad_alloc, and RunError or std::system_error when a thread can't be started.
Rates measure_rates(Index head_dim, DType dtype, int threads);

}  // namespace ringscope
