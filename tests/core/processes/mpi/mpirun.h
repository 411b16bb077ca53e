// Starting mpi_driver under mpirun.
#pragma once

#include <sys/wait.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/mpi_settings.h"

namespace ringscope {

struct MpiResult {
  int status = -1;  // mpirun's exit status; -1 when a signal ended it
  std::string output;
};

inline std::string mpirun_command(int world_size) {
  std::string command;
  for (const std::string& setting : mpi_settings()) command += setting + " ";
  for (const std::string& word : mpirun_words()) command += word + " ";
  return command + "-np " + std::to_string(world_size) + " ";
}

inline bool has_mpirun() { return std::system("command -v mpirun >/dev/null 2>&1") == 0; }

#define RINGSCOPE_SKIP_WITHOUT_MPIRUN() \
  if (!has_mpirun()) GTEST_SKIP() << "no mpirun on PATH (Debian: openmpi-bin)"

// Output: stdout and stderr together.
inline MpiResult run_driver(int world_size, const std::string& arguments) {
  // What sanitizers find inside of MPI is not ours.
  const std::string folder = RINGSCOPE_SOURCE_DIR "/tests/core/processes/mpi/";
  const std::string command = "LSAN_OPTIONS=print_suppressions=0:suppressions=" + folder +
                              "lsan.supp TSAN_OPTIONS=print_suppressions=0:suppressions=" + folder +
                              "tsan.supp " + mpirun_command(world_size) + RINGSCOPE_MPI_DRIVER +
                              " " + arguments + " 2>&1 </dev/null";
  MpiResult result;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> text;
  while (const std::size_t count = std::fread(text.data(), 1, text.size(), pipe))
    result.output.append(text.data(), count);
  const int ended = ::pclose(pipe);
  if (WIFEXITED(ended)) result.status = WEXITSTATUS(ended);
  EXPECT_EQ(result.output.find("Sanitizer"), std::string::npos) << result.output;
  return result;
}

}  // namespace ringscope
