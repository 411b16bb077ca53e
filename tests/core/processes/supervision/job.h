// Ranks as real processes, forked by a test, that report to it through pipes. They say when they have
// come to a mark, and in the end what they saw.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/processes/supervision/lifeline.h"
#include "tests/core/base/thrown.h"

namespace ringscope {

// Longer than any test may take: nothing may end by this timeout.
inline constexpr double kPatience = 60;

// What a process of the job knows of itself.
class Place {
 public:
  Place(int rank, int world_size, LifelineDoor door, int to_test, std::atomic<int>& entered);

  const int rank;
  const int world_size;
  const std::string invitation;

  // Returns when all ranks have joined. A failure of the run is the process's outcome: "rank 2, step 3:
  // its process ended (speaks)".
  std::unique_ptr<Lifeline> enter(double timeout_s = kPatience);
  // Returns when this rank has joined.
  std::unique_ptr<Lifeline> enter_alone(double timeout_s = kPatience);
  // Tells the test that this process has come so far.
  void mark() const;
  // Waits for the failure that ends this process.
  [[noreturn]] void wait_for_failure() const;

 private:
  std::optional<LifelineDoor> door_;  // rank 0's
  int to_test_;
  std::atomic<int>& entered_;  // ranks that have joined, in memory that all share
};

class Job {
 public:
  // The result of `work` is the process's outcome, which is "RunError ..." when it throws one.
  using Work = std::function<std::string(Place& place)>;

  Job(int world_size, const Work& work);
  ~Job();  // ends what is left
  Job(const Job&) = delete;

  void wait_for_marks();  // one more of each process
  void wait_for_mark(int rank);
  void send_signal(int rank, int signal) const;
  // Waits. None when the process ended without one.
  std::optional<std::string> outcome(int rank);
  // Every rank but `without` ends with this failure, and only `speaker` speaks.
  void expect_failure(const std::string& failure, int without = -1, int speaker = 0);

 private:
  struct Process {
    pid_t pid = -1;
    int pipe = -1;
    std::string said;
    bool has_ended = false;
  };
  bool read_more(Process& process) const;  // false at its end

  std::vector<Process> processes_;
  std::atomic<int>* entered_;
};

}  // namespace ringscope
