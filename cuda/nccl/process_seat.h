// Lets the processes of a run tell each other what they have before they connect, so that each
// knows its GPU and NCCL's id.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/process/lifeline.h"
#include "cuda/nccl/nccl_api.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/nccl/placement.h"

namespace ringscope::cuda {

// ---
// What a process tells the others before they connect.

struct GpuReport {
  RankGpus gpus;
  int nccl_version = 0;
  std::string why_not;  // one line on why the rank cannot take part; empty when it can

  bool operator==(const GpuReport&) const = default;
};

// Pack a report. reports_of() reads the packed reports of all ranks, one after the other, in order
// of rank. It throws RunError when `bytes` are not that.
std::string pack(const GpuReport& report);
std::vector<GpuReport> reports_of(std::string_view bytes, int world_size);

// Throw a RunError naming the lowest rank that cannot take part or has another NCCL than rank 0.
void check_reports(const std::vector<GpuReport>& reports);

// ---
// Readies the processes of a run, one per rank, before they connect. Over the lifeline, they tell
// each other what they have, learn which GPU each gets, and share NCCL's id.

struct ProcessSeat {
  RankSeat seat;
  Placement placement;  // of all ranks
};

// Choose the rank's GPU, make it the thread's, and set the environment that NCCL needs. Every rank
// calls it before anything else uses a GPU. Throws RunError naming a rank that has no GPU, no NCCL,
// or a different NCCL from rank 0.
ProcessSeat take_process_seat(Lifeline& line);

// Return rank 0's id. Every rank calls it. Throws RunError.
ncclUniqueId share_nccl_id(Lifeline& line);

// Return a function for the NcclWorld of one process that throws the run's failure, if there is
// one. `line` must outlive it.
GiveUp failure_of(Lifeline& line);

}  // namespace ringscope::cuda
