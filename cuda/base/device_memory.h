// The device's memory as core/base knows memory, so that a Buffer whose meter stands on it is a
// device buffer that frees itself and is accounted for.
#pragma once

#include "core/base/memory_space.h"

namespace ringscope::cuda {

// That of the current device. Every call has ended when it returns, on the device too: streams that
// don't wait for the legacy stream may use the memory at once.
class DeviceMemory : public MemorySpace {
 public:
  // Throws CudaError, whose status is cudaErrorMemoryAllocation where there is too little.
  void* allocate(Index bytes) override;
  void release(void* memory) noexcept override;
  void copy_in(void* to, const void* from_host, Index bytes) override;
  void copy_out(void* to_host, const void* from, Index bytes) const override;
};

DeviceMemory& device_memory();

}  // namespace ringscope::cuda
