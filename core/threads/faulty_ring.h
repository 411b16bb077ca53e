// Faults and delays injected on purpose (core/ring/faults.h), as decorators around the seams.
#pragma once

#include <memory>

#include "core/base/buffer.h"
#include "core/ring/problem.h"
#include "core/threads/recording.h"

namespace ringscope {

// Delaying a rank's computation as `--inject` asks, in a decorator around its backend. The rank
// sleeps, so more ranks than there are cores can all be late at once.

// Return how many seconds `rank` sleeps before it attends the block of a step, 0 for none. This is
// a pure function, so every run, and a simulation with the same seed, has the same delays
// (core/tools/sim/machine.h draws the same).
double delay_before(const Injection& injection, int world_size, int rank, Pass pass, int step);

// Return a backend that delays `rank` as `config` asks, or null if it is not delayed. `config` and
// `inner` must outlive it. `inner` must complete its operations before it returns.
std::unique_ptr<BlockBackend> with_delays(BlockBackend& inner, const Problem& config, int rank);

// ---
// Committing the mistake that `--inject` asks for, in a decorator around a rank's communicator. The
// run then shows what such a mistake leads to.

// What a rank runs in, which decides how it is killed.
enum class RankLives { in_a_thread, in_a_process };

// Return `inner`, or a decorator that owns it if `config` has this rank commit a mistake. `config`
// must outlive it, and so must `space`, in which the blocks lie. Every hop of the pass with the
// mistake must go through it. `pulse` shows for which rank one waits on purpose, and ends that wait;
// it is null where streams of a device wait.
std::unique_ptr<Communicator> with_faults(std::unique_ptr<Communicator> inner,
                                          const Problem& config, RankLives lives,
                                          MemorySpace& space = host_memory(),
                                          RankPulse* pulse = nullptr);

}  // namespace ringscope
