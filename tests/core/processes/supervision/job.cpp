#include "tests/core/processes/supervision/job.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace ringscope {
namespace {

constexpr char kMark = '!';
constexpr char kOutcome = '=';

void write_all(int fd, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(fd, text.data() + sent, text.size() - sent);
    if (n <= 0) ::_exit(1);
    sent += static_cast<std::size_t>(n);
  }
}

}  // namespace

Place::Place(int of_rank, int of_world_size, LifelineDoor door, int to_test,
             std::atomic<int>& entered)
    : rank(of_rank),
      world_size(of_world_size),
      invitation(door.invitation()),
      door_(std::move(door)),
      to_test_(to_test),
      entered_(entered) {
  if (rank != 0) door_.reset();
}

std::unique_ptr<Lifeline> Place::enter(double timeout_s) {
  std::unique_ptr<Lifeline> line = enter_alone(timeout_s);
  ++entered_;
  while (entered_ < world_size) ::usleep(1000);
  return line;
}

std::unique_ptr<Lifeline> Place::enter_alone(double timeout_s) {
  const auto say = [this](const RunError& error, int status, bool speaks) {
    write_all(to_test_, kOutcome + text_of(error) + (status == 2 ? " (bad input)" : "") +
                            (speaks ? " (speaks)" : ""));
  };
  return rank == 0 ? Lifeline::host(std::move(*door_), world_size, timeout_s, say)
                   : Lifeline::join(invitation, rank, world_size, timeout_s, say);
}

void Place::wait_for_failure() const {
  for (;;) ::pause();
}

void Place::mark() const { write_all(to_test_, std::string(1, kMark)); }

Job::Job(int world_size, const Work& work) {
  void* const page =
      ::mmap(nullptr, sizeof *entered_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("no page");
  entered_ = new (page) std::atomic<int>(0);
  LifelineDoor door;
  for (int rank = 0; rank < world_size; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      Place place(rank, world_size, std::move(door), ends[1], *entered_);
      std::string outcome;
      try {
        outcome = work(place);
      } catch (const RunError& error) {
        outcome = "RunError " + text_of(error);
      }
      write_all(ends[1], kOutcome + outcome);
      ::_exit(0);
    }
    ::close(ends[1]);
    processes_.push_back({pid, ends[0], "", false});
  }
}

Job::~Job() {
  for (const Process& process : processes_) {
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
    ::close(process.pipe);
  }
  ::munmap(entered_, sizeof *entered_);
}

bool Job::read_more(Process& process) const {
  pollfd polled{process.pipe, POLLIN, 0};
  char buffer[4096];
  const bool has_come = ::poll(&polled, 1, static_cast<int>(kPatience * 1e3)) > 0;
  EXPECT_TRUE(has_come) << "a process hangs";
  const ssize_t n = has_come ? ::read(process.pipe, buffer, sizeof buffer) : 0;
  process.has_ended = n <= 0;
  if (n > 0) process.said.append(buffer, static_cast<std::size_t>(n));
  return !process.has_ended;
}

void Job::wait_for_mark(int rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  while (process.said.empty() && read_more(process)) {
  }
  const bool is_marked = !process.said.empty() && process.said[0] == kMark;
  ASSERT_TRUE(is_marked) << "rank " << rank << " said " << process.said;
  process.said.erase(0, 1);
}

void Job::wait_for_marks() {
  for (int rank = 0; rank < std::ssize(processes_); ++rank) wait_for_mark(rank);
}

void Job::send_signal(int rank, int signal) const {
  ::kill(processes_[static_cast<std::size_t>(rank)].pid, signal);
}

std::optional<std::string> Job::outcome(int rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  while (!process.has_ended && read_more(process)) {
  }
  const std::size_t begin = process.said.find(kOutcome);
  if (begin == std::string::npos) return std::nullopt;
  return process.said.substr(begin + 1);
}

void Job::expect_failure(const std::string& failure, int without, int speaker) {
  for (int rank = 0; rank < std::ssize(processes_); ++rank) {
    if (rank == without) continue;
    EXPECT_EQ(outcome(rank), failure + (rank == speaker ? " (speaks)" : "")) << "rank " << rank;
  }
}

}  // namespace ringscope
