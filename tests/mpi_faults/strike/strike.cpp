// A library that is loaded before MPI's, and strikes a rank by a signal when it comes to a call of MPI:
// RINGSCOPE_STRIKE="CALL RANK SIGNAL", where CALL is MPI_Init_thread or MPI_Finalize, or "after" for
// half a second after MPI_Finalize.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

namespace {

void strike_at(const std::string& call) {
  const char* const wish = std::getenv("RINGSCOPE_STRIKE");
  const char* const mine = std::getenv("OMPI_COMM_WORLD_RANK");
  std::string where, rank;
  int signal = 0;
  std::istringstream(wish == nullptr ? "" : wish) >> where >> rank >> signal;
  if (where == call && mine != nullptr && rank == mine) ::kill(::getpid(), signal);
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  strike_at("MPI_Init_thread");
  using Call = int(int*, char***, int, int*);
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, "MPI_Init_thread"))(argc, argv, required,
                                                                        provided);
}

int MPI_Finalize() {
  strike_at("MPI_Finalize");
  const int code = reinterpret_cast<int (*)()>(::dlsym(RTLD_NEXT, "MPI_Finalize"))();
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    strike_at("after");
  }).detach();
  return code;
}

}  // extern "C"
