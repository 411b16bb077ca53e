// Which rank uses which GPU, and what NCCL needs where they are fewer than ranks.
//
// Several ranks on one GPU move their blocks slowly, and share its multiprocessors: that is for tests,
// of the ring over real NCCL on a machine with a single GPU. From 2.30.3 on NCCL allows it when
// NCCL_MULTI_RANK_GPU_ENABLE=1 is set before its first call. Before, only ranks that are processes
// can, each pretending to be a machine of its own (NCCL_HOSTID), joined by sockets over loopback.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ringscope::cuda {

// What one rank's process sees: its machine, and the GPUs in CUDA's order, both by names that differ
// where they do.
struct RankGpus {
  std::string machine;
  std::vector<std::string> gpus;

  bool operator==(const RankGpus&) const = default;
};

struct Placement {
  std::vector<int> devices;  // one a rank: index of its GPU as its process counts them
  bool shares_gpus = false;  // some GPU has several ranks
  int machines = 0;
  int fewest_gpus = 0;  // on any machine, different ones
};

// In order of rank, the least used GPU that a rank sees. Throws RunError naming a rank that sees
// none.
Placement place_ranks(std::span<const RankGpus> ranks);

using Environment = std::vector<std::pair<std::string, std::string>>;

// What must be in the environment of `rank` before NCCL's first call. `version` as NCCL_VERSION makes
// it; `are_processes`: every rank is a process. Throws RunError that says why NCCL cannot do it, and
// how it could be done.
Environment nccl_environment(const Placement& placement, int version, bool are_processes, int rank);

// Sets what is not set yet.
void apply(const Environment& environment);

// ---
// What this machine has for a ring over NCCL, in words: NCCL, GPUs, what joins them, and from how
// many rows a rank on a transfer is hidden behind the compute beside it.

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
// balanced partition, by core/cost and the rates in core/cost/hardware.txt (core/cost/time.h).
std::string links_text(const std::string& gpu_name, int architecture,
                       const std::vector<GpuPair>& pairs);

}  // namespace ringscope::cuda
