// What a command does as one rank of a job, where each rank is a process: the steps that
// process_command.h takes with it, on every rank alike.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "app/command_line/options.h"
#include "core/mpi/mpi_session.h"

namespace ringscope {

class JobPart {
 public:
  virtual ~JobPart() = default;

  // Before the ranks have heard of each other: what can be refused is. Throws InputError, RunError.
  virtual void prepare() = 0;
  // The work, when all want the same and nobody has refused. Throws what all ranks end with: a
  // RunError, and not before all know of it.
  virtual void run() = 0;
  // On rank 0, when the others have left: files and what is printed. Returns the exit status.
  virtual int conclude() = 0;
  // On the rank that speaks: writes what a failed job leaves behind. Returns the failure, which
  // then also says if that could not be. `thrown` is what ended run().
  virtual RunError leave_behind(const RunError& failure, const std::exception& thrown) = 0;
};

// The ranks that --world-size asks for must be as many as there are. Throws InputError.
void require_world_size(const MpiSession& session, std::optional<int> wanted);

std::unique_ptr<JobPart> make_run_part(MpiSession& session, const RunOptions& options);
std::unique_ptr<JobPart> make_train_part(MpiSession& session, const TrainOptions& options);
std::unique_ptr<JobPart> make_generate_part(MpiSession& session, const GenerateRequest& request);

// ---
// `ringscope run`, `train` and `generate` with a process a rank: this process is one rank of a job
// that mpirun, srun or the like has started, every one of them with the same command line. What the
// rank does is its command's JobPart.
//
// Only rank 0 opens files. It reads inputs and hands their rows out, or hands out a text's bytes,
// from which as from --random every rank makes its own rows; it gathers outputs, verifies, writes
// and prints when the others have left. What is wrong anywhere ends every rank with the same
// status, and is said once.

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
