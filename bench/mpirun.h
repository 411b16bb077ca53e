// The main function of benchmarks on MPI processes. A program that was started alone starts itself
// again under mpirun. Its processes are not bound to cores, because threads are not either.
#pragma once

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/mpi/mpi_session.h"

namespace ringscope {

// Execute mpirun. Return only if there is none.
inline void restart_under_mpirun(int ranks, const std::vector<std::string>& arguments) {
  const std::string count = std::to_string(ranks);
  std::vector<const char*> words = {"mpirun",          "--bind-to", "none",
                                    "--oversubscribe", "-np",       count.c_str()};
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  words.push_back(nullptr);
  std::fflush(nullptr);
  ::execvp(words[0], const_cast<char**>(words.data()));
}

// Return true if a launcher started this process, else execute mpirun. Return false without one.
inline bool launched_with(int ranks, int argc, char** argv) {
  if (launched_by_mpi()) return true;
  restart_under_mpirun(ranks, std::vector<std::string>(argv, argv + argc));
  std::printf("%s: skipped, no mpirun on PATH\n", argv[0]);
  return false;
}

// Run the registered benchmarks. Where `prints` is false, as on all ranks but the first, print
// nothing.
inline void run_registered_benchmarks(bool prints) {
  class Silence : public benchmark::BenchmarkReporter {
   public:
    bool ReportContext(const Context&) override { return true; }
    void ReportRuns(const std::vector<Run>&) override {}
  } silence;
  prints ? benchmark::RunSpecifiedBenchmarks() : benchmark::RunSpecifiedBenchmarks(&silence);
}

// Run the registered benchmarks on `ranks` processes, after begin(session). Only the first rank
// prints. Return the exit status of main.
inline int mpi_benchmark_main(int ranks, int argc, char** argv,
                              const std::function<void(MpiSession&)>& begin) {
  if (!launched_with(ranks, argc, argv)) return 0;
  benchmark::Initialize(&argc, argv);
  MpiSession session(60);
  if (session.world_size() != ranks) {
    std::fprintf(stderr, "%s: %d ranks given, %d needed\n", argv[0], session.world_size(), ranks);
    return 2;
  }
  begin(session);
  run_registered_benchmarks(session.rank() == 0);
  session.finish();
  return 0;
}

}  // namespace ringscope
