// How much memory a run will need and how much there is, asked before anything large is allocated:
// a machine that overcommits would otherwise say yes and end the process later.
#pragma once

#include <string>

#include "core/base/math.h"
#include "core/ring/run.h"

namespace ringscope {

struct MemoryLimit {
  Index bytes = 0;
  std::string source;  // what sets it
};

// The tightest of: what the machine has free, the limits of the control groups that this process is
// in, and the process's own limit on address space.
MemoryLimit available_memory();

// Bytes at the peak of a run: inputs, outputs, what every rank holds, the recording; with `verify`
// also what the comparison holds. Throws InputError when the sum does not fit in 64 bits.
Index run_bytes(const RingConfig& config, bool dout_given, bool verify);

// Throws RunError naming both numbers when `needed` is more than there is.
void require_memory(Index needed);

// "12.3 GiB"
std::string bytes_text(Index bytes);

}  // namespace ringscope
