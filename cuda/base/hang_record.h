// Names the wait in which a kernel hung. A wait that takes ten seconds ends its kernel
// (cuda/ptx/barrier.h) and leaves a record in memory of the host, which outlives the device's
// context; CudaError adds it to its text.
#pragma once

#include <cstdint>
#include <string>

namespace ringscope::cuda {

// What a wait that does not end leaves behind: which block and thread waited, and the barrier, as
// its address in shared memory, with the parity of the phase; or 0, with the turn that did not come.
struct HangRecord {
  std::uint32_t claimed, written;
  std::uint32_t block_x, block_y, thread, barrier, parity;
};

// Return the record of the kernels of this name, which must outlive the program. Throw CudaError.
HangRecord* hang_record_of(const char* kernel);

// Return "; 07_hopper_overlap hung: block (3, 0), thread 128 waits at shared address 1024 for parity
// 1" for each record that was written, or "".
std::string hang_reports();

}  // namespace ringscope::cuda
