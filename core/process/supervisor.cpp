#include "core/process/supervisor.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <string>
#include <thread>

#include "core/base/error.h"

namespace ringscope {
namespace {

constexpr int kFailed = 3;
constexpr timespec kMomentForOthers{1, 500'000'000};  // s, ns

// Signals by which a launcher or a user asks for the end, and signals with other requests.
constexpr int kEnds[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
constexpr int kOthers[] = {SIGUSR1, SIGUSR2, SIGCONT};

sigset_t ends() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEnds) sigaddset(&set, signal);
  return set;
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

// Stop with the parent. Whoever stops the process that the launcher knows means this one, and a
// stopped parent could not pass on how this one ended. The parent passes SIGCONT on.
void stop_with(pid_t parent) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([parent] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (is_stopped(parent)) ::kill(::getpid(), SIGSTOP);
    }
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Make a page that the child shares; it is never freed.
SharedFlag& make_shared_flag() {
  void* const page = ::mmap(nullptr, sizeof(SharedFlag), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    throw RunError(std::string("no memory to share with the work: ") + std::strerror(errno));
  return *new (page) SharedFlag(false);
}

// Return whether the child has ended, and then set its `status`.
bool has_ended(pid_t child, int& status) {
  pid_t ended;
  do {
    ended = ::waitpid(child, &status, WNOHANG);
  } while (ended < 0 && errno == EINTR);
  return ended == child;
}

}  // namespace

int supervised(const std::function<int(SharedFlag&)>& work, const std::function<void(int)>& lost) {
  SharedFlag& others_watch = make_shared_flag();
  // Signals are taken one by one below, so no handler is needed. They are blocked before the child
  // exists, so none is lost.
  sigset_t taken = ends(), before;
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
    if (::getppid() != parent) ::_exit(kFailed);  // the parent died before that call
    ::sigaction(SIGCHLD, &inherited, nullptr);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    stop_with(parent);
    std::exit(work(others_watch));
  }

  int status = 0;
  bool is_end_asked_for = false;
  while (!has_ended(child, status)) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&taken, &info);
    if (signal < 0 || signal == SIGCHLD) continue;
    const sigset_t ending = ends();
    if (sigismember(&ending, signal) == 1) is_end_asked_for = true;
    // What a terminal sends, it sends to the child as well.
    if (info.si_code != SI_KERNEL) ::kill(child, signal);
  }
  if (!WIFEXITED(status) && !is_end_asked_for) {
    const sigset_t ending = ends();
    // A rank may die when rank 0 knows it, but before it has set the flag. Rank 0 speaks of it then,
    // and the launcher asks for the end of this one.
    const bool is_known = ::sigtimedwait(&ending, nullptr, &kMomentForOthers) > 0;
    if (!others_watch && !is_known) lost(WTERMSIG(status));
  }
  ::sigaction(SIGCHLD, &inherited, nullptr);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

}  // namespace ringscope
