// What this machine offers to a run, cores and memory, and how much memory a run needs, before anything
// large is allocated: a machine that overcommits would grant it and kill the process later.
#pragma once

#include <optional>
#include <string>

#include "core/base/cores.h"
#include "core/base/math.h"
#include "core/ring/problem.h"
#include "core/threads/run.h"
#include "core/tools/cost/measure.h"

namespace ringscope {

// Return the processor, the number of cores and the operating system, in a line.
std::string machine_text();

struct MemoryLimit {
  Index bytes = 0;
  std::string source;  // what sets it
};

// Return the tightest of three limits: the machine's free memory, the limits of this process's
// control groups, and the process's own limit on address space.
MemoryLimit available_memory();

// ---
// Measure the kernels, and the copies between as many threads as a job of `ranks` ranks has, up to
// a number that takes only a moment. Threads that take turns on a core find its caches full of each
// other's values.
CpuFigures measured_kernels(const Problem& job, int ranks);

// What a process holds of a run and beside it.
struct MemoryUse {
  std::optional<int> rank = {};  // the only one in this process; none: all of them
  bool reads_inputs = true;      // of the whole sequence
  bool makes_text = false;       // holds the text, from which it makes its rows
  bool gathers_outputs = true;
  bool dout_given = false;
  bool verify = false;           // after the run, beside its outputs and recording
  bool keeps_reference = false;  // made before the run, and held throughout
  bool ranks_elsewhere = false;  // their memory is a device's
};

// Throw RunError naming both numbers when the peak of a run in this process (inputs, outputs, ranks, the
// recording and the comparison) exceeds the available memory. Other processes' needs are unknown. For a
// valid shape this is fast and does not overflow, whatever the world_size.
void require_memory(const Problem& config, const MemoryUse& use);

// The values of the whole sequence's queries and keys, and its rows.
struct TensorSizes {
  double query, kv, rows;
};
TensorSizes sizes_of(const AttentionShape& shape);

// Throw RunError naming both numbers, and what to give instead, when `needed` bytes are more than
// there are.
void require_bytes(double needed, const std::string& advice = "smaller sizes or fewer ranks");

// Throw RunError when a simulation, with `task_bytes` per task, takes more memory than there is.
void require_memory_to_simulate(const Problem& job, double task_bytes = 144);

// Throw RunError when stacks may grow so little that the program would end by SIGSEGV.
void require_stack();

}  // namespace ringscope
