#include "bench/gpu_check/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace ringscope::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void become(const Child& child, pid_t parent) {
  setpgid(0, 0);
  // Die with the parent, because nobody would enforce the time limit after that.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it had ended before
  const int log = open(child.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const int out = child.out.empty()
                      ? log
                      : open(child.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (log < 0 || out < 0 || in < 0) _exit(127);
  dup2(in, 0);
  dup2(out, 1);
  dup2(log, 2);
  for (const auto& [name, value] : child.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : child.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

Outcome run(const Child& child) {
  const auto begin = Clock::now();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("no process can be made");
  if (pid == 0) become(child, parent);
  setpgid(pid, pid);  // both processes do this, because either may come first

  Outcome outcome;
  int status = 0;
  double ask_again = 0.002;
  bool asked_to_end = false;
  for (;;) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid || ended < 0) break;
    const double waited = seconds_since(begin);
    if (waited > child.limit_s && !asked_to_end) {
      outcome.cut_off = asked_to_end = true;
      kill(-pid, SIGTERM);
    }
    if (waited > child.limit_s + 2) kill(-pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::duration<double>(ask_again));
    ask_again = std::min(ask_again * 1.5, 0.05);
  }
  kill(-pid, SIGKILL);  // what it started and left behind
  outcome.seconds = seconds_since(begin);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  std::ifstream file(path);
  if (file) text << file.rdbuf();
  return text.str();
}

std::string tail_of(const std::string& path, std::size_t bytes) {
  const std::string text = text_of(path);
  return text.size() <= bytes ? text : "... " + text.substr(text.size() - bytes);
}

std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string file = folder + "/" + name; access(file.c_str(), X_OK) == 0) return file;
  return "";
}

}  // namespace ringscope::gpu_check
