// Real runs, by the program itself, and the hops of a ring of processes.
#pragma once

#include <string>

#include "core/cost/job.h"
#include "core/cost/measure.h"

namespace ringscope {

struct RealRun {
  double wall_s = 0;
  double attend_s = 0;  // processor seconds of all ranks within compute slices
};

// `ringscope run --random` of `job`, on threads ("cpu") or on processes under mpirun ("mpi").
// `trace`: where its recording may lie for a while. Throws RunError with the command that failed.
RealRun run_really(const Job& job, const std::string& backend, const std::string& trace);

// Of a ring of so many processes (mpi_hops.cpp).
struct ProcessFigures {
  double start_s = 0;  // what a rank's first hop takes more than the later ones
  HopFigures hops;
};
ProcessFigures measure_processes(int world_size, Index block_bytes);

// "", or why there can be no runs on `backend`.
std::string why_not(const std::string& backend);

}  // namespace ringscope
