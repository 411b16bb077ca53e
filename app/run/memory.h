// How much memory a run will need, asked before anything large is allocated: a machine that
// overcommits would otherwise say yes and end the process later.
#pragma once

#include <string>

#include "core/run/run.h"

namespace ringscope {

// What a command holds beside the run itself.
struct MemoryUse {
  bool dout_given = false;
  bool verify = false;           // after the run, beside its outputs and recording
  bool keeps_reference = false;  // made before the run, and held throughout
  bool ranks_elsewhere = false;  // their memory is a device's
};

// Throws RunError naming both numbers when the peak of a run (inputs, outputs, what every rank
// holds, the recording, the comparison) is more than there is. Takes little time and does not
// overflow whatever the world_size, for a shape that is valid.
void require_memory(const RingConfig& config, const MemoryUse& use);

// What one process holds that has a single rank of the run.
struct ProcessMemoryUse {
  int rank = 0;
  bool reads_inputs = false;  // all of them, to hand them out
  bool makes_text = false;    // into rows
  bool gathers_outputs = false;
  bool verify = false;
  bool dout_given = false;
  bool ranks_elsewhere = false;  // their memory is a device's
};

// The same for a process with one rank. What other processes take on the same machine is not known
// here: each is held against what is free now.
void require_process_memory(const RingConfig& config, const ProcessMemoryUse& use);

// Throws RunError naming both numbers when `needed` bytes are more than there are.
void require_bytes(double needed);

// "12.3 GiB"
std::string bytes_text(double bytes);

}  // namespace ringscope
