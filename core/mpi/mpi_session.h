// MPI from its start to its end, with the lifeline that goes with it. A process has one session.
#pragma once

#include <memory>
#include <string>

#include "core/process/lifeline.h"

namespace ringscope {

class MpiSession {
 public:
  // Call MPI_Init_thread, then start the lifeline. Throw RunError.
  explicit MpiSession(double timeout_s);
  // After a failure no MPI function is called, not even MPI_Finalize, because peers may be gone.
  ~MpiSession();

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  Lifeline& lifeline() { return *lifeline_; }

  // End the lifeline and MPI in order. Every rank calls it, and is alone afterwards.
  void finish();

 private:
  int rank_ = 0, world_size_ = 1;
  bool finished_ = false;
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
