// What this machine has for a ring over NCCL, in words: NCCL, GPUs, what joins them, and from how
// many rows a rank on a transfer is hidden behind the compute beside it.
#pragma once

#include <string>
#include <vector>

namespace ringscope::cuda {

// "yes: NCCL 2.28.9, 8 GPUs" or "no: " and why, for a line of `ringscope info`. Never throws.
std::string nccl_availability();

// Lines for `ringscope info`, each ended; empty where NCCL or GPUs are not there.
std::string nccl_details();

// What joins two GPUs, as CUDA says.
struct GpuPair {
  int from = 0, to = 0;
  bool can_access = false;   // one reads the other's memory directly
  bool has_atomics = false;  // in one operation, which only NVLink can
};

// The lines about links of GPUs of this name and compute capability x 10. Rows: c = F/B from which a
// full step hides a hop, with 2-byte values and as many kv heads as heads, and a causal one of a
// balanced partition, by core/cost and the rates in core/cost/hardware.txt (overlap.h).
std::string links_text(const std::string& gpu_name, int architecture,
                       const std::vector<GpuPair>& pairs);

}  // namespace ringscope::cuda
