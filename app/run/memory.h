// Computes how much memory a run needs before anything large is allocated, because a machine that
// overcommits would grant an allocation and kill the process later.
#pragma once

#include <string>

#include "core/run/run.h"

namespace ringscope {

// What a command holds besides the run itself.
struct MemoryUse {
  bool dout_given = false;
  bool verify = false;           // after the run, beside its outputs and recording
  bool keeps_reference = false;  // made before the run, and held throughout
  bool ranks_elsewhere = false;  // their memory is a device's
};

// Throw RunError naming both numbers when the peak of a run exceeds the available memory. The peak
// counts inputs, outputs, all ranks, the recording and the comparison. For a valid shape this is
// fast and does not overflow, whatever the world_size.
void require_memory(const Problem& config, const MemoryUse& use);

// What a process with a single rank of the run holds.
struct ProcessMemoryUse {
  int rank = 0;
  bool reads_inputs = false;  // all of them, to send each rank its rows
  bool makes_text = false;    // holds the text, from which it makes rows
  bool gathers_outputs = false;
  bool verify = false;
  bool dout_given = false;
  bool ranks_elsewhere = false;  // their memory is a device's
};

// Do the same for a process with one rank. The needs of other processes on the same machine are
// unknown here, so each process is compared with what is free now.
void require_process_memory(const Problem& config, const ProcessMemoryUse& use);

// The values of the whole sequence's queries and keys, and its rows.
struct TensorSizes {
  double query, kv, rows;
};
TensorSizes sizes_of(const AttentionShape& shape);

// Throw RunError naming both numbers when `needed` bytes are more than there are.
void require_bytes(double needed);

}  // namespace ringscope
