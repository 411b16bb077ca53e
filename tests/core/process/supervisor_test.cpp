// A supervisor hands on how its child ended, and neither outlives the other.
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
#include <string>
#include <thread>

#include "core/process/socket.h"
#include "core/process/supervisor.h"

namespace ringscope {
namespace supervisor_test {

using Clock = std::chrono::steady_clock;
constexpr int kPatience = 20;  // s

// A process that supervises; the child tells its process id before `work`.
class Supervisor {
 public:
  explicit Supervisor(const std::function<int()>& work) {
    // Whoever loses its parent becomes this process's child, so that its end can be seen.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      // A shell has programs in the background ignore some of them.
      for (const int signal : {SIGINT, SIGQUIT, SIGHUP}) std::signal(signal, SIG_DFL);
      ::_exit(supervised(
          [&](SharedFlag&) {
            const pid_t child = ::getpid();
            const bool said = ::write(ends[1], &child, sizeof child) == sizeof child;
            ::_exit(said ? work() : 99);  // not the test program's own way to end
            return 0;
          },
          [](int) {}));
    }
    ::close(ends[1]);
    EXPECT_EQ(::read(ends[0], &child_, sizeof child_), static_cast<ssize_t>(sizeof child_));
    lives_ = Descriptor(ends[0]);
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
  // Whether both processes end within some time: then nobody holds the pipe any more.
  bool ends() const {
    pollfd polled{lives_.get(), POLLIN, 0};
    return ::poll(&polled, 1, kPatience * 1000) == 1;
  }

 private:
  pid_t pid_ = -1, child_ = -1;
  Descriptor lives_;
};

int work_for_long() {
  std::this_thread::sleep_for(std::chrono::seconds(2 * kPatience));
  return 98;
}

// Waits until process `pid` is in `state` of /proc/PID/stat.
bool comes_to_state(pid_t pid, char state) {
  const auto until = Clock::now() + std::chrono::seconds(kPatience);
  while (Clock::now() < until) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t at = line.rfind(") ");
    if (at != std::string::npos && line[at + 2] == state) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Supervised, HandsOnTheStatus) {
  for (const int status : {0, 1, 2, 3, 42, 255}) {
    const Supervisor supervisor([=] { return status; });
    EXPECT_EQ(supervisor.status(), status);
  }
}

TEST(Supervised, EndsOrderlyWithTheResult) {
  // By exit(), so that what is buffered is written and what is registered is called.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    static int to_test;
    to_test = ends[1];
    const int status = supervised(
        [](SharedFlag&) {
          std::atexit([] {
            (void)!::write(to_test, "x", 1);
            ::_exit(7);
          });
          return 5;
        },
        [](int) {});
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Supervised, ASignalsVictimIsStatus3AfterAMoment) {
  const auto begin = Clock::now();
  const Supervisor supervisor([] {
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  EXPECT_EQ(supervisor.status(), 3);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(900));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

// What the parent said of a child that did `work`: the signals, one a character.
std::string said_of_lost(const std::function<int(SharedFlag&)>& work) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    ::_exit(supervised(work, [&](int signal) {
      const char said = static_cast<char>(signal);
      (void)!::write(ends[1], &said, 1);
    }));
  }
  ::close(ends[1]);
  std::string said;
  for (char byte = 0; ::read(ends[0], &byte, 1) == 1;) said += byte;
  ::waitpid(pid, nullptr, 0);
  ::close(ends[0]);
  return said;
}

TEST(Supervised, SpeaksOfAVictimThatNobodyElseWatched) {
  EXPECT_EQ(said_of_lost([](SharedFlag&) { return ::kill(::getpid(), SIGKILL); }),
            std::string(1, SIGKILL));
  EXPECT_EQ(said_of_lost([](SharedFlag& others_watch) {
              others_watch = true;
              return ::kill(::getpid(), SIGKILL);
            }),
            "");
  EXPECT_EQ(said_of_lost([](SharedFlag&) -> int { ::_exit(3); }), "");
  // Rank 0 knew it, spoke and ended, so the launcher asks this one to end.
  EXPECT_EQ(said_of_lost([](SharedFlag&) {
              const pid_t parent = ::getppid();
              if (::fork() == 0) {
                ::usleep(200000);
                ::kill(parent, SIGTERM);
                ::_exit(0);
              }
              return ::kill(::getpid(), SIGKILL);
            }),
            "");
}

TEST(Supervised, TheMomentEndsWhenTheLauncherSaysSo) {
  const Supervisor supervisor([] {
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  while (::kill(supervisor.child(), 0) == 0) std::this_thread::yield();  // the moment has begun
  const auto begin = Clock::now();
  ::kill(supervisor.pid(), SIGTERM);
  EXPECT_EQ(supervisor.status(), 3);
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(900));
}

TEST(Supervised, EndsAreHandedOn) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    const Supervisor supervisor(work_for_long);
    const auto begin = Clock::now();
    ::kill(supervisor.pid(), signal);
    EXPECT_EQ(supervisor.status(), 3) << signal;
    EXPECT_TRUE(supervisor.ends());
    EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(900)) << signal;
  }
}

TEST(Supervised, TheChildMayTakeASignalItsOwnWay) {
  const Supervisor supervisor([] {
    std::signal(SIGTERM, [](int) { ::_exit(9); });
    ::kill(::getppid(), SIGTERM);
    return work_for_long();
  });
  EXPECT_EQ(supervisor.status(), 9);
}

TEST(Supervised, KilledSupervisorTakesTheChildAlong) {
  const Supervisor supervisor(work_for_long);
  ::kill(supervisor.pid(), SIGKILL);
  EXPECT_TRUE(supervisor.ends());
}

TEST(Supervised, StoppedSupervisorStopsTheChild) {
  const Supervisor supervisor(work_for_long);
  ::kill(supervisor.pid(), SIGSTOP);
  EXPECT_TRUE(comes_to_state(supervisor.child(), 'T'));
  ::kill(supervisor.pid(), SIGCONT);
  EXPECT_TRUE(comes_to_state(supervisor.child(), 'S'));
  ::kill(supervisor.child(), SIGKILL);
  EXPECT_EQ(supervisor.status(), 3);
}

}  // namespace supervisor_test
}  // namespace ringscope
