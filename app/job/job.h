// What a command does whose ranks work together: on one rank, where each is a process, or on all of them,
// where they are threads of this one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace ringscope {

class MpiSession;

class Job {
 public:
  // A null `session`: all ranks are here.
  explicit Job(MpiSession* session) : session_(session) {}
  virtual ~Job() = default;

  // Check the input before the ranks work together. What this and the next two throw ends all ranks.
  virtual void prepare() = 0;
  virtual void run() = 0;
  // Write the files and print on rank 0, after MPI has ended. Return the exit status.
  virtual int conclude() = 0;
  // Write what a failed job leaves behind, on the rank that speaks and on another thread than those
  // above, which go on. Return the failure, extended if more can be said of it.
  virtual RunError leave_behind(const RunError& failure) { return failure; }

 protected:
  // Return the rank that this process is, or none where it has all of them.
  std::optional<int> rank() const;
  // Return whether this process opens files, prints and writes.
  bool is_first() const { return rank().value_or(0) == 0; }
  // Return how many ranks there are: `wanted`, or else `otherwise` or as many as there are processes.
  // Throw InputError unless as many as wanted are there.
  int world_size(std::optional<int> wanted, int otherwise) const;
  // Return what the first process gives.
  std::string broadcast(const std::string& of_first) const;

  MpiSession* session_;
};

// Take the job, all of whose ranks are here, through its steps. Return the exit status.
int carry_out_here(Job& job);

// ---
// `ringscope run`, `train` and `generate` with one process per rank. This process is one rank of a
// job that mpirun, srun or a similar launcher has started with one command line for all.
//
// Only rank 0 opens files. It reads inputs and sends each rank its rows, or it sends a text's
// bytes, from which every rank makes its own rows, as it does for --random. It gathers outputs,
// verifies, writes and prints, while the others wait for it. An error anywhere ends every rank with
// the same status and is printed once.

// Return whether `arguments` (without the program's name) are meant for one rank of a job, and this
// build can run one.
bool asks_for_processes(const std::vector<std::string>& arguments);

// Run this process's rank and return the process's exit status. Call this before there are threads.
// Throw RunError when there can't be a job.
int process_command(const std::vector<std::string>& arguments);

}  // namespace ringscope
