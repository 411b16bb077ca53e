// `ringscope run`, `train` and `generate` with a process a rank: this process is one rank of a job
// that mpirun, srun or the like has started, every one of them with the same command line. What the
// rank does is its command's JobPart.
//
// Only rank 0 opens files. It reads inputs and hands their rows out, or hands out a text's bytes,
// from which as from --random every rank makes its own rows; it gathers outputs, verifies, writes
// and prints when the others have left. What is wrong anywhere ends every rank with the same
// status, and is said once.
#pragma once

#include <string>
#include <vector>

namespace ringscope {

// Whether `arguments` (without the program's name) are meant for one rank of a job, and this build
// can run one.
bool asks_for_processes(const std::vector<std::string>& arguments);

// Runs this process's rank; returns the process's exit status. Must be called before there are
// threads. Throws RunError when there can't be a job.
int process_command(const std::vector<std::string>& arguments);

// What is to be said of a run whose ranks are all in this process, although a launcher has started
// several: once, by the first of them. "" for nothing.
std::string remark_on_processes();

}  // namespace ringscope
