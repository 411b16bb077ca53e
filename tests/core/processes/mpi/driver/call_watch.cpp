// Stands between the program and MPI's three most frequent calls, by MPI's profiling interface, and
// counts the times when a call found another one going on: MPI_THREAD_SERIALIZED allows one at once.
#define OMPI_SKIP_MPICXX 1  // the C functions alone
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <thread>

#include "tests/core/processes/mpi/driver/driver.h"

namespace ringscope {
namespace {

std::atomic<int> calls_now{0}, overlaps{0};

template <class Call>
int watched(const Call& call) {
  if (calls_now.fetch_add(1) != 0) ++overlaps;
  std::this_thread::yield();  // time for another thread to make the mistake
  const int code = call();
  calls_now.fetch_sub(1);
  return code;
}

}  // namespace

int overlapping_calls() { return overlaps; }

}  // namespace ringscope

extern "C" {

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  return ringscope::watched([&] { return PMPI_Test(request, done, status); });
}

int MPI_Testsome(int count, MPI_Request requests[], int* completed, int indices[],
                 MPI_Status statuses[]) {
  return ringscope::watched(
      [&] { return PMPI_Testsome(count, requests, completed, indices, statuses); });
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  return ringscope::watched([&] { return PMPI_Iprobe(source, tag, comm, found, status); });
}

}  // extern "C"
