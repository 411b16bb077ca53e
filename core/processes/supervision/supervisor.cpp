#include "core/processes/supervision/supervisor.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "core/base/error.h"
#include "core/processes/supervision/meeting.h"

namespace ringscope {
namespace {

constexpr int kBadInputStatus = 2, kFailedStatus = 3;
constexpr double kLookSeconds = 0.2;
constexpr char kBeforeMeeting[] = " before the ranks had met";
// What other ranks need to say what they saw before the launcher ends them too.
constexpr double kMomentForOthers = 1.5;
// The same where they watched the worker, and surely speak unless they are lost as well.
constexpr double kMomentForWatchers = 5;
// MPI takes its time to start, however short the timeout is.
constexpr double kLeastMeetingSeconds = 10;

// Signals by which a launcher or a user asks for the end, and signals with other requests.
constexpr int kEnds[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
constexpr int kOthers[] = {SIGUSR1, SIGUSR2, SIGCONT};

template <std::size_t n>
sigset_t set_of(const int (&signals)[n]) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// Wait at most `seconds` for a signal of `set`, and return it with `info`; -1 when none comes.
int await_signal(const sigset_t& set, double seconds, siginfo_t* info) {
  const timespec most{static_cast<time_t>(seconds),
                      static_cast<long>((seconds - static_cast<time_t>(seconds)) * 1e9)};
  return ::sigtimedwait(&set, info, &most);
}

// Return whether a signal has stopped the process `pid`.
bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // The line is "1234 (name) T ...", where the name may be anything.
  const std::size_t end_of_name = line.rfind(") ");
  return end_of_name != std::string::npos && line.compare(end_of_name, 3, ") T") == 0;
}

// Measures for how long something has been so.
class Lasting {
 public:
  // Return for how many seconds, up to now, update() was called with true alone.
  // Of a pause between calls, as when this process was stopped, a second counts.
  double update(bool holds) {
    const double now = steady_seconds();
    since_ += std::max(now - updated_ - 1, 0.0);
    updated_ = now;
    if (!holds) since_ = now;
    return now - since_;
  }

 private:
  double since_ = steady_seconds(), updated_ = since_;
};

// Stop with the parent. Whoever stops the process that the launcher knows means this one, and a
// stopped parent could not pass on how this one ended. The parent passes SIGCONT on. Where no other
// rank would notice, let the parent go on after the timeout, so that it can speak of it.
void stop_with(pid_t parent, double timeout_s, SharedStage& stage) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([parent, timeout_s, &stage] {
    for (Lasting stopped;;) {
      std::this_thread::sleep_for(std::chrono::duration<double>(kLookSeconds));
      const double for_s = stopped.update(is_stopped(parent));
      if (for_s > 0 && (stage == Stage::watched || stage == Stage::alone)) {
        ::kill(::getpid(), SIGSTOP);
      } else if (for_s >= timeout_s) {
        stage = Stage::halted;
        ::kill(parent, SIGCONT);
      }
    }
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Make a page that the child shares; it is never freed.
SharedStage& make_shared_stage() {
  void* const page = ::mmap(nullptr, sizeof(SharedStage), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    throw RunError(std::string("no memory to share with the work: ") + std::strerror(errno));
  return *new (page) SharedStage(Stage::starting);
}

// Return whether the child has ended, and then set its `status`.
bool has_ended(pid_t child, int& status) {
  pid_t ended;
  do {
    ended = ::waitpid(child, &status, WNOHANG);
  } while (ended < 0 && errno == EINTR);
  return ended == child;
}

// Finds out, by regular looks, that the worker has come to a halt where no other rank watches it, or
// none that has not come to a halt as well.
class HaltJudge {
 public:
  HaltJudge(pid_t child, double timeout_s, int order, const SharedStage& stage)
      : child_(child), timeout_s_(timeout_s), order_(order), stage_(stage) {}

  // Return what is wrong, or "".
  std::string look() {
    const double stopped_s = stopped_.update(is_stopped(child_));
    const bool are_apart = stage_ != Stage::watched && stage_ != Stage::alone;
    const double apart_s = apart_.update(are_apart);
    if (stage_ == Stage::watched && stopped_s >= timeout_s_ + kMomentForWatchers)
      return fmt::format("its process was stopped for {:g} s", timeout_s_);
    if (!are_apart) return "";
    const double moment_s = stage_ == Stage::meeting ? kMomentForOthers : 0;
    if (stopped_s >= timeout_s_ + moment_s || stage_ == Stage::halted)
      return fmt::format("its process was stopped for {:g} s{}", timeout_s_, kBeforeMeeting);
    const double most_s = std::max(timeout_s_, kLeastMeetingSeconds);
    if (apart_s >= most_s + kMomentForOthers + kLookSeconds * order_)
      return fmt::format("the other ranks did not come within {:g} s", most_s);
    return "";
  }

 private:
  const pid_t child_;
  const double timeout_s_;
  const int order_;
  const SharedStage& stage_;
  Lasting stopped_, apart_;
};

// How a worker ended.
struct End {
  int status = 0;  // of waitpid()
  Stage stage = Stage::starting;
  bool was_asked_for = false;  // by a signal to its parent

  // It said itself what was wrong, if anything was, or is not to be spoken of.
  bool is_orderly() const {
    if (!WIFEXITED(status)) return false;
    const int code = WEXITSTATUS(status);
    return stage == Stage::alone || was_asked_for || code == kFailedStatus ||
           code == kBadInputStatus;
  }
  std::string text() const {
    const std::string how = WIFEXITED(status)
                                ? fmt::format("its process exited with {}", WEXITSTATUS(status))
                                : fmt::format("its process ended by signal {}", WTERMSIG(status));
    return stage == Stage::alone || stage == Stage::watched ? how : how + kBeforeMeeting;
  }
};

// Return whether other ranks speak of this end. If they do, the launcher then asks for the end of this
// process, by one of `ends`. It may ask all processes of the job at once, and the worker be faster.
bool is_known_to_others(const End& end, const sigset_t& ends) {
  const bool was_signalled =
      WIFSIGNALED(end.status) && sigismember(&ends, WTERMSIG(end.status)) == 1;
  if (!was_signalled && end.stage != Stage::meeting && end.stage != Stage::watched) return false;
  const double moment_s = end.stage == Stage::watched ? kMomentForWatchers : kMomentForOthers;
  return await_signal(ends, moment_s, nullptr) > 0;
}

}  // namespace

int supervised(double timeout_s, int order, const std::function<int(SharedStage&)>& work,
               const std::function<void(const std::string&)>& lost) {
  SharedStage& stage = make_shared_stage();
  // Signals are taken one by one below, so no handler is needed. They are blocked before the child
  // exists, so none is lost.
  const sigset_t ends = set_of(kEnds);
  sigset_t taken = ends, before;
  for (const int signal : kOthers) sigaddset(&taken, signal);
  sigaddset(&taken, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &taken, &before);
  // If SIGCHLD is ignored, a child leaves no status.
  struct sigaction normal {
  }, inherited{};
  normal.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &normal, &inherited);

  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    throw RunError(std::string("no process for the work: ") + std::strerror(error));
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kFailedStatus);  // the parent died before that call
    ::sigaction(SIGCHLD, &inherited, nullptr);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    stop_with(parent, timeout_s, stage);
    std::exit(work(stage));
  }

  End end;
  std::string halted;
  for (HaltJudge judge(child, timeout_s, order, stage); !has_ended(child, end.status);) {
    siginfo_t info{};
    const int signal = await_signal(taken, kLookSeconds, &info);
    if (signal > 0 && signal != SIGCHLD) {
      end.was_asked_for = end.was_asked_for || sigismember(&ends, signal) == 1;
      // What a terminal sends, it sends to the child as well.
      if (info.si_code != SI_KERNEL) ::kill(child, signal);
    }
    if (halted.empty() && !end.was_asked_for && !(halted = judge.look()).empty())
      ::kill(child, SIGKILL);
  }
  end.stage = stage;
  const bool is_to_be_told = !end.is_orderly() && !end.was_asked_for;
  if (is_to_be_told && !halted.empty())
    lost(halted);
  else if (is_to_be_told && !is_known_to_others(end, ends))
    lost(end.text());
  ::sigaction(SIGCHLD, &inherited, nullptr);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return end.is_orderly() ? WEXITSTATUS(end.status) : kFailedStatus;
}

}  // namespace ringscope
