// Decides which rank uses which GPU, and what NCCL needs when GPUs are fewer than ranks.
//
// Ranks that share a GPU move their blocks slowly and share its multiprocessors, so this serves
// only tests of the ring over real NCCL on a machine with one GPU. NCCL allows it from 2.30.3 on if
// NCCL_MULTI_RANK_GPU_ENABLE=1 is set before its first call. Older versions need a process per
// rank, each posing as its own machine (NCCL_HOSTID), joined by sockets over loopback.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/nccl/nccl_world.h"

namespace ringscope::cuda {

// What one rank's process sees: its machine, and the GPUs in CUDA's order. Different machines and
// different GPUs have different names.
struct RankGpus {
  std::string machine;
  std::vector<std::string> gpus;

  bool operator==(const RankGpus&) const = default;
};

// Return this process's machine and GPUs. When no GPU can be used, RankGpus::gpus is empty and
// `why_not` says why.
RankGpus visible_gpus(std::string& why_not);

struct Placement {
  std::vector<int> devices;  // one per rank: its GPU's index in its process
  bool shares_gpus = false;  // whether some GPU has several ranks
  int machines = 0;
  int fewest_gpus = 0;  // smallest number of different GPUs on a machine
};

// Give each rank, in order, the least used GPU that it sees. Throws RunError naming a rank that
// sees none.
Placement place_ranks(std::span<const RankGpus> ranks);

using Environment = std::vector<std::pair<std::string, std::string>>;

// Return what `rank` must have in its environment before NCCL's first call. `version` is in the
// form of NCCL_VERSION; `are_processes` says that every rank is a process. Throws a RunError that
// says why NCCL cannot run this, and how it could.
Environment nccl_environment(const Placement& placement, int version, bool are_processes, int rank);

// Set the variables that are not set yet.
void apply(const Environment& environment);

// ---
// Return "yes: NCCL 2.28.9, 8 GPUs" or "no: " and why, for `ringscope info`. Never throws.
std::string nccl_availability();

// ---
// Lets the processes of a run tell each other what they have before they connect, so that each
// knows its GPU and NCCL's id.

struct GpuReport {
  RankGpus gpus;
  int nccl_version = 0;
  std::string why_not;  // one line on why the rank cannot take part; empty when it can

  bool operator==(const GpuReport&) const = default;
};

// Return a report as lines, and the report of such lines.
std::string to_lines(const GpuReport& report);
GpuReport report_from(const std::string& lines);

// Throw a RunError naming the lowest rank that cannot take part or has another NCCL than rank 0.
void check_reports(const std::vector<GpuReport>& reports);

// ---
// Readies the processes of a run, one per rank, before they connect. They tell each other what they
// have, learn which GPU each gets, and share NCCL's id.

// Return the texts of all ranks, in order of rank. Every rank calls it.
using AllGather = std::function<std::vector<std::string>(const std::string& mine)>;

struct ProcessSeat {
  RankSeat seat;
  Placement placement;  // of all ranks
};

// Choose the rank's GPU, make it the thread's, and set the environment that NCCL needs. Every rank
// calls it before anything else uses a GPU. Throws RunError naming a rank that has no GPU, no NCCL,
// or a different NCCL from rank 0.
ProcessSeat take_process_seat(int rank, const AllGather& all_gather);

// Return rank 0's id. Every rank calls it. Throws RunError.
ncclUniqueId share_nccl_id(int rank, const AllGather& all_gather);

}  // namespace ringscope::cuda
