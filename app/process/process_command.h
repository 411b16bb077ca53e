// Commands as jobs, where each rank is a process. JobPart is what a command does on one rank;
// process_command() takes every rank through the same steps of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/command_line/commands.h"
#include "core/ranks/mpi/mpi_session.h"

namespace ringscope {

class JobPart {
 public:
  explicit JobPart(MpiSession& session) : session_(session) {}
  virtual ~JobPart() = default;

  // Check the input before the ranks work together. What this and the next two throw ends all ranks.
  virtual void prepare() = 0;
  virtual void run() = 0;
  // Write the files and print on rank 0, after MPI has ended. Return the exit status.
  virtual int conclude() = 0;
  // Write what a failed job leaves behind, on the rank that speaks and on another thread than those
  // above, which go on. Return the failure, extended if more can be said of it.
  virtual RunError leave_behind(const RunError& failure) { return failure; }

 protected:
  bool is_first() const { return session_.rank() == 0; }

  MpiSession& session_;
};

// Throw InputError unless --world-size asks for as many ranks as there are.
void require_world_size(const MpiSession& session, std::optional<int> wanted);

std::unique_ptr<JobPart> make_run_part(MpiSession& session, const RunOptions& options);
std::unique_ptr<JobPart> make_train_part(MpiSession& session, const TrainOptions& options);
std::unique_ptr<JobPart> make_generate_part(MpiSession& session, const GenerateRequest& request);

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

// Return a remark for a run whose ranks are all in this process although a launcher has started
// several processes. Only the first process returns it; otherwise return "".
std::string remark_on_processes();

}  // namespace ringscope
