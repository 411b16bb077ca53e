// What a command does as one rank of a job, where each rank is a process: the steps that
// process_command.h takes with it, on every rank alike.
#pragma once

#include <exception>
#include <memory>

#include "app/options.h"
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

}  // namespace ringscope
