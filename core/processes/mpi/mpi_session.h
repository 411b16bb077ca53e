// MPI from its start to its end, with the lifeline that goes with it. A process has one session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/processes/supervision/lifeline.h"
#include "core/processes/supervision/supervisor.h"

namespace ringscope {

class MpiSession {
 public:
  // Call MPI_Init_thread, then start the lifeline. Keep `stage`, which may be null. Throw RunError.
  MpiSession(double timeout_s, Lifeline::OnFailure on_failure, SharedStage* stage = nullptr);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  Lifeline& lifeline() { return *lifeline_; }

  // Small collectives, which every rank calls in the same order.
  std::vector<std::string> gather(const std::string& mine);  // at rank 0: all by rank; else empty
  std::string broadcast(std::string of_rank_0);              // what rank 0 gave
  std::vector<std::string> all_gather(const std::string& mine);  // all by rank

  // End MPI in order; every rank calls it. The lifeline goes on.
  void finalize();
  // End the lifeline, too, in order. Every rank calls it, and is alone afterwards.
  void finish();

 private:
  int rank_ = 0, world_size_ = 1;
  bool is_finalized_ = false;
  SharedStage* stage_;
  std::unique_ptr<Lifeline> lifeline_;
};

// Return whether a launcher that sets up MPI (mpirun, srun, ...) started this process, judged by
// its environment.
bool launched_by_mpi();
// Return this process's rank as its launcher tells, without a session; -1: it doesn't tell.
int launched_rank();
// Return the version, such as "Open MPI 4.1.4, MPI 3.1", for `info`. This needs no session.
std::string mpi_version();

}  // namespace ringscope
