// A supervisor hands on how its child ended, speaks of it where nobody else can, and neither outlives
// the other.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/files.h"
#include "core/processes/supervision/supervisor.h"

namespace ringscope {
namespace supervisor_test {

constexpr double kTimeout = 1;
constexpr int kPatience = 60;  // s, which end a hang

// A process that supervises; the child tells its process id before `work`, which is at `stage`.
class Supervisor {
 public:
  Supervisor(Stage stage, const std::function<int()>& work) {
    // Whoever loses its parent becomes this process's child, so that its end can be seen.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2], words[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::pipe(words), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::close(words[0]);
      // A shell has programs in the background ignore some of them.
      for (const int signal : {SIGINT, SIGQUIT, SIGHUP}) std::signal(signal, SIG_DFL);
      ::_exit(supervised(
          kTimeout, 0,
          [&](SharedStage& shared) {
            shared = stage;
            const pid_t child = ::getpid();
            const bool said = ::write(ends[1], &child, sizeof child) == sizeof child;
            ::_exit(said ? work() : 99);  // not the test program's own way to end
            return 0;
          },
          [&](const std::string& what) { (void)!::write(words[1], what.data(), what.size()); }));
    }
    ::close(ends[1]);
    ::close(words[1]);
    EXPECT_EQ(::read(ends[0], &child_, sizeof child_), static_cast<ssize_t>(sizeof child_));
    lives_ = Descriptor(ends[0]);
    words_ = Descriptor(words[0]);
  }
  ~Supervisor() {
    ::kill(pid_, SIGKILL);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  pid_t pid() const { return pid_; }
  pid_t child() const { return child_; }
  // Its exit status, or 128 + the signal that ended it.
  int status() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // What it said of a lost child, when both have ended.
  std::string said() const {
    std::string said;
    char bytes[256];
    for (ssize_t n = 0; (n = ::read(words_.get(), bytes, sizeof bytes)) > 0;)
      said.append(bytes, static_cast<std::size_t>(n));
    return said;
  }
  // Whether both processes end within some time: then nobody holds the pipe any more.
  bool ends() const {
    pollfd polled{lives_.get(), POLLIN, 0};
    return ::poll(&polled, 1, kPatience * 1000) == 1;
  }

 private:
  pid_t pid_ = -1, child_ = -1;
  Descriptor lives_, words_;
};

int work_for_long() {
  std::this_thread::sleep_for(std::chrono::seconds(2 * kPatience));
  return 98;
}

int kill_oneself() { return ::raise(SIGKILL); }

// Waits until process `pid` is in `state` of /proc/PID/stat.
bool comes_to_state(pid_t pid, char state) {
  for (int look = 0; look < 100 * kPatience; ++look) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t at = line.rfind(") ");
    if (at != std::string::npos && line[at + 2] == state) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// How a child ends by itself, and what comes of it.
struct Ending {
  Stage stage;
  std::function<int()> work;
  int status;
  std::string said;
};

TEST(Supervised, HandsOnTheStatusAndSpeaksOfWhatNobodyElseCanSee) {
  const auto exits = [](int status) { return [status] { return status; }; };
  const Ending endings[] = {
      {Stage::alone, exits(0), 0, ""},
      {Stage::alone, exits(1), 1, ""},
      {Stage::alone, exits(255), 255, ""},
      {Stage::starting, exits(2), 2, ""},
      {Stage::watched, exits(3), 3, ""},
      // Not by us: a library ends the process.
      {Stage::starting, exits(1), 3, "its process exited with 1 before the ranks had met"},
      {Stage::watched, exits(0), 3, "its process exited with 0"},
      {Stage::starting, kill_oneself, 3, "its process ended by signal 9 before the ranks had met"},
      {Stage::meeting, kill_oneself, 3, "its process ended by signal 9 before the ranks had met"},
      {Stage::watched, kill_oneself, 3, "its process ended by signal 9"},
      {Stage::alone, kill_oneself, 3, "its process ended by signal 9"}};
  std::vector<std::unique_ptr<Supervisor>> supervisors;  // at once, because some wait
  for (const Ending& ending : endings)
    supervisors.push_back(std::make_unique<Supervisor>(ending.stage, ending.work));
  for (std::size_t i = 0; i < supervisors.size(); ++i) {
    EXPECT_EQ(supervisors[i]->status(), endings[i].status) << endings[i].said;
    EXPECT_EQ(supervisors[i]->said(), endings[i].said);
  }
}

TEST(Supervised, EndsOrderlyWithTheResult) {
  // By exit(), so that what is buffered is written and what is registered is called.
  const pid_t pid = ::fork();
  if (pid == 0)
    ::_exit(supervised(
        kTimeout, 0,
        [](SharedStage& stage) {
          stage = Stage::alone;
          std::atexit([] { ::_exit(7); });
          return 5;
        },
        [](const std::string&) {}));
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

// Others that know of the end speak, and end; so the launcher asks this one to end. It says nothing then.
// It also says nothing where the launcher's request reaches its child first.
TEST(Supervised, LeavesTheWordToOthersWhereTheyMayKnow) {
  const auto is_terminated = [] {
    ::raise(SIGTERM);
    return 0;
  };
  const Ending endings[] = {{Stage::meeting, kill_oneself, 3, ""},
                            {Stage::watched, kill_oneself, 3, ""},
                            {Stage::starting, is_terminated, 3, ""}};
  for (const Ending& ending : endings) {
    const Supervisor supervisor(ending.stage, ending.work);
    while (::kill(supervisor.child(), 0) == 0) std::this_thread::yield();  // its moment has begun
    ::kill(supervisor.pid(), SIGTERM);
    EXPECT_EQ(supervisor.status(), 3);
    EXPECT_EQ(supervisor.said(), "");
  }
}

TEST(Supervised, EndsAreHandedOn) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    const Supervisor supervisor(Stage::watched, work_for_long);
    ::kill(supervisor.pid(), signal);
    EXPECT_EQ(supervisor.status(), 3) << signal;
    EXPECT_TRUE(supervisor.ends());
    EXPECT_EQ(supervisor.said(), "");
  }
}

TEST(Supervised, TheChildMayTakeASignalItsOwnWay) {
  const Supervisor supervisor(Stage::watched, [] {
    std::signal(SIGTERM, [](int) { ::_exit(9); });
    ::kill(::getppid(), SIGTERM);
    return work_for_long();
  });
  EXPECT_EQ(supervisor.status(), 9);
}

TEST(Supervised, KilledSupervisorTakesTheChildAlong) {
  const Supervisor supervisor(Stage::starting, work_for_long);
  ::kill(supervisor.pid(), SIGKILL);
  EXPECT_TRUE(supervisor.ends());
}

TEST(Supervised, StoppedSupervisorStopsTheChildThatOthersWatch) {
  const Supervisor supervisor(Stage::watched, work_for_long);
  ::kill(supervisor.pid(), SIGSTOP);
  EXPECT_TRUE(comes_to_state(supervisor.child(), 'T'));
  ::kill(supervisor.pid(), SIGCONT);
  EXPECT_TRUE(comes_to_state(supervisor.child(), 'S'));
  ::kill(supervisor.pid(), SIGTERM);
  EXPECT_EQ(supervisor.status(), 3);
}

// The others may be stopped as well, so that nobody watches.
TEST(Supervised, AStopThatNobodySpeaksOfEnds) {
  const Supervisor supervisor(Stage::watched, work_for_long);
  ::kill(supervisor.child(), SIGSTOP);
  ASSERT_TRUE(supervisor.ends());
  EXPECT_EQ(supervisor.status(), 3);
  EXPECT_EQ(supervisor.said(), "its process was stopped for 1 s");
}

// Nobody else would ever notice, whichever of the two processes is stopped.
TEST(Supervised, AStopBeforeTheRanksMeetEndsByTheTimeout) {
  for (const Stage stage : {Stage::starting, Stage::meeting}) {
    const Supervisor of_child(stage, work_for_long), itself(stage, work_for_long);
    ::kill(of_child.child(), SIGSTOP);
    ::kill(itself.pid(), SIGSTOP);
    for (const Supervisor* supervisor : {&of_child, &itself}) {
      EXPECT_EQ(supervisor->status(), 3);
      EXPECT_TRUE(supervisor->ends());
      EXPECT_EQ(supervisor->said(), "its process was stopped for 1 s before the ranks had met");
    }
  }
}

TEST(Supervised, WaitingForOthersInVainEnds) {
  const Supervisor supervisor(Stage::meeting, work_for_long);
  EXPECT_EQ(supervisor.status(), 3);
  EXPECT_TRUE(supervisor.ends());
  EXPECT_EQ(supervisor.said(), "the other ranks did not come within 10 s");
}

}  // namespace supervisor_test
}  // namespace ringscope
