// A job of ranks under mpirun, watched from outside: its processes can be found and struck by
// signals, and looked for when it should be gone.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/app/program.h"

namespace ringscope {

// How a job ended.
struct JobEnd {
  int status = -1;  // mpirun's
  std::string out, err;
  Strings lines;      // of err, those that the program itself said
  Strings left_over;  // processes that were there when long enough had been waited for them

  std::string text() const;  // for messages
};

class Job {
 public:
  // Starts mpirun with `arguments` in `folder`, which it makes, and `settings` of its environment.
  Job(std::string folder, const Strings& arguments, const Strings& settings);
  ~Job();  // ends what is left of it
  Job(const Job&) = delete;

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::set<std::string> files() const;  // in the folder

  // Returns when the working process of `rank` is there, false as below.
  bool wait_for_start(int rank);
  // Returns when every rank of `world_size` has started its first hop. False when that takes too
  // long, or the job has ended.
  bool wait_for_ring(int world_size);
  // A rank is two processes: the one that works, and the one that waits for it, its parent. 0: none.
  pid_t working(int rank) const { return processes_of(rank).working; }
  pid_t waiting(int rank) const { return processes_of(rank).waiting; }
  void strike(pid_t process, int signal);

  JobEnd end();

 private:
  struct Pair {
    pid_t working = 0, waiting = 0;
  };
  Pair processes_of(int rank) const;
  std::vector<pid_t> processes() const;  // all that carry the mark
  bool has_launcher_ended();
  int exit_code_said_by_launcher() const;
  void release_hung_launcher();

  std::string folder_;
  std::string mark_;  // in the environment of every process of the job
  pid_t launcher_ = -1;
  int launcher_status_ = -1;
  int looks_alone_ = 0;  // at a launcher that alone is left of its job, one after the other
};

// Arguments of mpirun for ranks that run `ringscope run --backend mpi` with `arguments`.
Strings ranks(int world_size, const Strings& arguments);
// Tests with jobs: skipped with a reason where there is no MPI.
class FaultTest : public ProgramTest {
 protected:
  void SetUp() override;

  // Calls f(i) for all i < count from several threads, so that jobs that mostly wait do not wait for
  // each other.
  static void for_each(std::size_t count, std::size_t at_once,
                       const std::function<void(std::size_t)>& f);

  // In a folder of its own.
  std::unique_ptr<Job> start(const Strings& arguments, const Strings& settings = {});

 private:
  std::atomic<int> jobs_ = 0;
};

// A job that ended as it should when something fails: status 3, one line with `parts` in it, nothing on
// stdout, no processes and no files left. By which timeout it ended, the line says.
void expect_failed(const Job& job, const JobEnd& end, const Strings& parts);

}  // namespace ringscope
