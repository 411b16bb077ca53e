// `ringscope run`, `train` and `generate` with one process per rank. This process is one rank of a
// job that mpirun, srun or a similar launcher has started with one command line for all.
//
// Only rank 0 opens files. It reads inputs and sends each rank its rows, or it sends a text's
// bytes, from which every rank makes its own rows, as it does for --random. It gathers outputs,
// verifies, writes and prints, while the others wait for it. An error anywhere ends every rank with
// the same status and is printed once.

#pragma once

#include <string>
#include <vector>

namespace ringscope {

// Return whether `arguments` (without the program's name) are meant for one rank of a job, and this
// build can run one.
bool asks_for_processes(const std::vector<std::string>& arguments);

// Run this process's rank and return the process's exit status. Call this before there are threads.
// Throw RunError when there can't be a job.
int process_command(const std::vector<std::string>& arguments);

}  // namespace ringscope
