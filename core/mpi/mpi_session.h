// MPI, from its start to its end, and the lifeline that goes with it. One a process.
#pragma once

#include <memory>
#include <string>

#include "core/process/lifeline.h"

namespace ringscope {

class MpiSession {
 public:
  // MPI_Init_thread, then the lifeline. Throws RunError.
  explicit MpiSession(double timeout_s);
  // After a failure nothing of MPI is called any more, also not MPI_Finalize: peers may be gone.
  ~MpiSession();

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  Lifeline& lifeline() { return *lifeline_; }

  // Orderly end of the lifeline and of MPI, called by every rank; afterwards this process is alone.
  void finish();

 private:
  int rank_ = 0, world_size_ = 1;
  bool finished_ = false;
  std::unique_ptr<Lifeline> lifeline_;
};

// Whether this process was started by something that sets up MPI (mpirun, srun, ...), from its
// environment.
bool launched_by_mpi();
// The rank that this process will have, as its launcher says, before there is a session; -1: it does
// not say.
int launched_rank();
// "Open MPI 4.1.4, MPI 3.1", for `info`. Does not need a session.
std::string mpi_version();

}  // namespace ringscope
