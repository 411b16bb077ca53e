// Runs the program itself on the problem that is predicted, and measures hops between processes.
#pragma once

#include <string>

#include "core/cost/measure.h"
#include "core/ring/problem.h"

namespace ringscope {

struct RealRun {
  double wall_s = 0;
  double attend_s = 0;  // processor seconds of all ranks within compute slices
};

// Run `ringscope run --random` of `job`, on threads ("cpu") or on processes under mpirun ("mpi").
// `trace` is a temporary file for the recording. Throw RunError with the failed command.
RealRun run_really(const Problem& job, const std::string& backend, const std::string& trace);

// The costs of a ring of processes, as mpi_hops.cpp measures them.
struct ProcessFigures {
  double start_s = 0;  // additional time of a rank's first hop
  HopFigures hops;
};
ProcessFigures measure_processes(int world_size, Index block_bytes);

// Return why there can be no runs on `backend`, or "".
std::string why_not(const std::string& backend);

}  // namespace ringscope
