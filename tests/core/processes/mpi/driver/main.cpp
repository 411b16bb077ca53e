// What mpi_tests starts under mpirun: one process a rank. Rank 0 checks, with GoogleTest's
// expectations; exit status 0 when all hold, 1 when not, 3 when the run failed.
//
//   mpi_driver sweep       many small runs, each compared with the same on threads
//   mpi_driver messages    hops by themselves
//   mpi_driver ahead       runs that go on only when blocks come in ahead
//   mpi_driver slow_disk   training whose rank 0 has to wait for longer than the timeout
//   mpi_driver stuck       a rank that does not come to a hop
//   mpi_driver no_source   rank 0 cannot read its input; every rank prints the failure
#include <unistd.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/core/processes/mpi/driver/driver.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace {

// Every rank prints the failure that it ends with.
void end_with(const ringscope::RunError& error, int, bool speaks) {
  std::printf("a rank ends: rank %d, step %d: %s\n", error.rank(), error.step(), error.what());
  std::fflush(stdout);
  // The first process that ends with an error makes mpirun end all others. (Rank 0 has not told them.)
  if (!speaks) std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

double timeout_of(const std::string& command) {  // in seconds
  if (command == "stuck") return 1;
  if (command == "slow_disk") return 2;
  return command == "ahead" ? 10 : 60;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ringscope;
  const std::string command = argc > 1 ? argv[1] : "";
  try {
#ifdef __SANITIZE_ADDRESS__
    // What libraries leak that MPI loads and unloads again while it starts.
    __lsan_disable();
#endif
    MpiSession session(timeout_of(command), end_with);
#ifdef __SANITIZE_ADDRESS__
    __lsan_enable();
#endif
    if (command == "sweep") sweep(session);
    if (command == "messages") messages(session);
    if (command == "ahead") ahead(session);
    if (command == "slow_disk") slow_disk(session);
    if (command == "stuck") stuck(session);
    if (command == "no_source") no_source(session);
#ifdef __SANITIZE_ADDRESS__
    // While MPI's libraries are still loaded, so that leaks inside of them can be told from ours.
    if (__lsan_do_recoverable_leak_check() != 0) throw RunError("leaks");
#endif
    EXPECT_EQ(overlapping_calls(), 0);
    session.finish();
    std::fflush(stdout);
    ::_exit(testing::UnitTest::GetInstance()->Failed() ? 1 : 0);
  } catch (const std::exception& error) {
    // After a failure MPI is not called any more, also not by what runs at exit.
    std::printf("failed: %s\n", error.what());
    std::fflush(stdout);
    ::_exit(3);
  }
}
