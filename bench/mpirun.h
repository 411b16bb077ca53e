// Lets a program of MPI processes start itself again under mpirun. Its processes are not bound to
// cores, because threads are not either.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/mpi/mpi_session.h"

namespace ringscope {

// Return true if a launcher started this process, else execute mpirun. Return false without one.
inline bool launched_with(int ranks, int argc, char** argv) {
  if (launched_by_mpi()) return true;
  const std::string count = std::to_string(ranks);
  std::vector<const char*> words = {"mpirun",          "--bind-to", "none",
                                    "--oversubscribe", "-np",       count.c_str()};
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  words.insert(words.end(), argv, argv + argc);
  words.push_back(nullptr);
  ::execvp(words[0], const_cast<char**>(words.data()));
  std::printf("%s: skipped, no mpirun on PATH\n", argv[0]);
  return false;
}

}  // namespace ringscope
