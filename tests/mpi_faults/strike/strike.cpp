// A library that is loaded before MPI's, and strikes a rank by a signal when it comes to a call of MPI:
// RINGSCOPE_STRIKE="CALL RANK SIGNAL", where CALL is MPI_Init_thread or MPI_Finalize, or "after" for
// half a second after MPI_Finalize. Then rank 0 waits before it verifies, because a machine with many
// cores would be done before the strike.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

namespace {

std::atomic<bool> has_finalized = false;

struct Strike {
  std::string where, rank;
  int signal = 0;
};

Strike wished() {
  const char* const wish = std::getenv("RINGSCOPE_STRIKE");
  Strike strike;
  std::istringstream(wish == nullptr ? "" : wish) >> strike.where >> strike.rank >> strike.signal;
  return strike;
}

std::string my_rank() {
  const char* const mine = std::getenv("OMPI_COMM_WORLD_RANK");
  return mine == nullptr ? "" : mine;
}

void strike_at(const std::string& call) {
  const Strike strike = wished();
  if (strike.where == call && strike.rank == my_rank()) ::kill(::getpid(), strike.signal);
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
  has_finalized = true;
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    strike_at("after");
  }).detach();
  return code;
}

// Verification begins by asking whether its progress can be drawn.
int isatty(int file) {
  if (has_finalized && my_rank() == "0" && wished().where == "after")
    std::this_thread::sleep_for(std::chrono::seconds(60));
  return reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, "isatty"))(file);
}

}  // extern "C"
